import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { ConntrackConfig } from '../../config/proxy-config.ts';
import type { Kernel, KernelReader } from '../../kernel/kernel.ts';
import { errorCode, errorText } from '../../base/text/error-text.ts';
import type { Log } from '../../observe/log/log.ts';
import type { NodeSettings } from '../../reconcile/node/node-settings.ts';
import { setTimeoutWithin, toKernelSeconds } from './kernel-timeout.ts';
import { StartupError } from './startup-error.ts';
import { setSysctl } from './set-sysctl.ts';

/** Upper limit of an nf_conntrack_max that is computed from the number of CPUs; as in kube-proxy. */
const MOST_BY_CPUS = 1_048_576;

/** Tracked connections per bucket of the hash table, when the table is full. */
const CONNECTIONS_PER_BUCKET = 4;

const KEY_MAX = 'net/netfilter/nf_conntrack_max';
const HASH_FILE = 'sys/module/nf_conntrack/parameters/hashsize';
const LEAVE_ALONE = 'or keep the present value with --conntrack-max-per-core=0 (conntrack.maxPerCore: 0)';

/** Called with a sentence about a setting that could not be written, if the daemon starts nevertheless. */
export type OnRefused = (text: string) => void;

/**
 * Interprets --conntrack-* as the newest kube-proxy does: `maxPerCore` connections for each CPU of the host, at most
 * 2^20, but never fewer than `min`. nf_conntrack_max is raised, never lowered. Throws a StartupError or KernelError
 * that names a failed write, except that of the hash table's size.
 *
 * @param root directory of /proc and /sys
 */
export async function setUpConntrack(
  kernel: Kernel,
  config: ConntrackConfig,
  log: Log,
  onRefused: OnRefused = () => undefined,
  root = '/',
): Promise<void> {
  // Read nothing if nothing is requested: the key and the file may not exist.
  if (config.maxPerCore > 0) {
    const max = await wantedMax(config, root);
    await raiseMax(kernel, max, log);
    await raiseHashsize(path.join(root, HASH_FILE), Math.trunc(max / CONNECTIONS_PER_BUCKET), log, onRefused);
  }
  for (const [name, value] of timeouts(config)) {
    const set = (seconds: number): Promise<void> => setSysctl(kernel, `net/netfilter/${name}`, String(seconds), log);
    await setTimeoutWithin(name, value, set, log);
  }
}

/** Returns the sysctls that setUpConntrack sets, without a maximum that is high enough. Only reads. */
export async function wantedConntrack(
  kernel: Pick<KernelReader, 'getSysctl'>,
  config: ConntrackConfig,
  root = '/',
): Promise<NodeSettings['sysctls']> {
  const wanted = timeouts(config).map(([name, value]) => [`net/netfilter/${name}`, String(value)] as const);
  if (config.maxPerCore === 0) return wanted;
  const max = await wantedMax(config, root);
  return max > Number(await kernel.getSysctl(KEY_MAX)) ? [[KEY_MAX, String(max)], ...wanted] : wanted;
}

async function wantedMax(config: ConntrackConfig, root: string): Promise<number> {
  // A container may be limited to some CPUs of the host, but conntrack belongs to all.
  const cpus = (await readFile(path.join(root, 'proc/stat'), 'utf8')).match(/^cpu\d/gm)?.length ?? 1;
  return Math.max(config.min, Math.min(config.maxPerCore * cpus, MOST_BY_CPUS));
}

function timeouts(config: ConntrackConfig): [name: string, seconds: number][] {
  const seconds: [string, number][] = [
    ['nf_conntrack_tcp_timeout_established', config.tcpEstablishedTimeout],
    ['nf_conntrack_tcp_timeout_close_wait', config.tcpCloseWaitTimeout],
    ['nf_conntrack_udp_timeout', config.udpTimeout],
    ['nf_conntrack_udp_timeout_stream', config.udpStreamTimeout],
  ];
  const set = seconds.map(([key, ms]): [string, number] => [key, toKernelSeconds(ms)]).filter(([, s]) => s > 0);
  return config.tcpBeLiberal ? [...set, ['nf_conntrack_tcp_be_liberal', 1]] : set;
}

async function raiseMax(kernel: Kernel, max: number, log: Log): Promise<void> {
  const current = await kernel.getSysctl(KEY_MAX);
  if (current === undefined) {
    throw new StartupError(`sysctl ${KEY_MAX} does not exist: load the kernel module nf_conntrack on the node`);
  }
  if (max <= Number(current)) return;
  try {
    await setSysctl(kernel, KEY_MAX, String(max), log);
  } catch (error) {
    const advice = `${KEY_MAX} can be raised only in the host's own network namespace: set it there, ${LEAVE_ALONE}`;
    throw new StartupError(`${errorText(error)}; ${advice}`, { cause: error });
  }
}

/** The hash table decides only how fast connections are found, so a failure is a warning. */
async function raiseHashsize(file: string, hashsize: number, log: Log, onRefused: OnRefused): Promise<void> {
  // If the file cannot be read, the write reports the reason.
  if (hashsize <= Number(await readFile(file, 'utf8').catch(() => '0'))) return;
  try {
    await writeFile(file, String(hashsize));
    log.info('connection tracking hash table resized', { hashsize });
  } catch (error) {
    const text =
      `the hash table of connection tracking cannot be resized: ${file} to ${hashsize}: ${errorCode(error) ?? 'EIO'}; with ` +
      `many connections, connection tracking becomes slow. Set the value on the node, mount /sys writable, ${LEAVE_ALONE}`;
    log.warn(text);
    onRefused(text);
  }
}
