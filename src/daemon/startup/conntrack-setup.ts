import { readFile, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import type { ConntrackConfig } from '../../config/proxy-config.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { errorCode, errorText } from '../../base/error-text.ts';
import type { Log } from '../../observe/log.ts';
import { setTimeoutWithin, toKernelSeconds } from './kernel-timeout.ts';
import { StartupError } from './startup-error.ts';

/** Upper limit of nf_conntrack_max when it follows from the number of CPUs; as in kube-proxy. */
const MOST_BY_CPUS = 1_048_576;

/** Tracked connections per bucket of the hash table, when the table is full. */
const CONNECTIONS_PER_BUCKET = 4;

const KEY_MAX = 'net/netfilter/nf_conntrack_max';

/** Current values of the node. */
export interface ConntrackFacts {
  /** The CPUs of the host. A container may be limited to some of them. */
  readonly cpus: number;
  /** nf_conntrack_max. */
  readonly max: number;
  /** Buckets of the hash table. */
  readonly hashsize: number;
}

/** The values to write. `max` and `hashsize` are absent if not requested, or if the node already has enough. */
export interface ConntrackPlan {
  readonly max?: number;
  readonly hashsize?: number;
  /** Keys under net/netfilter/; written only if the current value differs. */
  readonly sysctls: readonly (readonly [key: string, value: number])[];
}

/**
 * Interprets --conntrack-* as the newest kube-proxy does: `maxPerCore` connections for each CPU, at most 2^20, but
 * never fewer than `min`. nf_conntrack_max is raised, never lowered.
 */
export function planConntrack(config: ConntrackConfig, facts: ConntrackFacts): ConntrackPlan {
  const { maxPerCore, min } = config;
  const wanted = maxPerCore === 0 ? 0 : Math.max(min, Math.min(maxPerCore * facts.cpus, MOST_BY_CPUS));
  const buckets = Math.trunc(wanted / CONNECTIONS_PER_BUCKET);
  return {
    ...(wanted > facts.max ? { max: wanted } : {}),
    ...(buckets > facts.hashsize ? { hashsize: buckets } : {}),
    sysctls: timeouts(config),
  };
}

function timeouts(config: ConntrackConfig): [string, number][] {
  const seconds: [string, number][] = [
    ['nf_conntrack_tcp_timeout_established', config.tcpEstablishedTimeout],
    ['nf_conntrack_tcp_timeout_close_wait', config.tcpCloseWaitTimeout],
    ['nf_conntrack_udp_timeout', config.udpTimeout],
    ['nf_conntrack_udp_timeout_stream', config.udpStreamTimeout],
  ];
  const set = seconds.map(([key, ms]): [string, number] => [key, toKernelSeconds(ms)]).filter(([, s]) => s > 0);
  return config.tcpBeLiberal ? [...set, ['nf_conntrack_tcp_be_liberal', 1]] : set;
}

/** Returns the number of CPUs in a list such as "0-3,8"; undefined if it is not such a list. */
export function countCpus(list: string): number | undefined {
  let count = 0;
  for (const part of list.trim().split(',')) {
    const range = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (range === null) return undefined;
    const first = Number(range[1]);
    const last = Number(range[2] ?? range[1]);
    if (last < first) return undefined;
    count += last - first + 1;
  }
  return count;
}

/** Reads current values and writes the planned ones. Throws a StartupError or KernelError that names a failed write. */
export async function setUpConntrack(kernel: Kernel, config: ConntrackConfig, log: Log, sysfs = '/sys'): Promise<void> {
  const hashFile = path.join(sysfs, 'module/nf_conntrack/parameters/hashsize');
  const plan = planConntrack(config, {
    cpus: await hostCpus(sysfs),
    // Read nothing if nothing is requested: the key and the file may not exist.
    max: config.maxPerCore === 0 ? 0 : await currentMax(kernel),
    hashsize: config.maxPerCore === 0 ? 0 : await currentHashsize(hashFile),
  });
  if (plan.max !== undefined) await raiseMax(kernel, plan.max, log);
  if (plan.hashsize !== undefined) await writeHashsize(hashFile, plan.hashsize, log);
  for (const [name, value] of plan.sysctls) {
    const set = (seconds: number): Promise<void> => setSysctl(kernel, `net/netfilter/${name}`, seconds, log);
    await setTimeoutWithin(name, value, set, log);
  }
}

async function hostCpus(sysfs: string): Promise<number> {
  const list = await readFile(path.join(sysfs, 'devices/system/cpu/online'), 'utf8').catch(() => '');
  return countCpus(list) ?? availableParallelism();
}

async function currentMax(kernel: Kernel): Promise<number> {
  const text = await kernel.getSysctl(KEY_MAX);
  if (text === undefined) {
    throw new StartupError(`sysctl ${KEY_MAX} does not exist: load the kernel module nf_conntrack on the node`);
  }
  return Number(text);
}

/** Returns zero if the file cannot be read: the write then reports the reason. */
async function currentHashsize(file: string): Promise<number> {
  return Number(await readFile(file, 'utf8').catch(() => '0'));
}

async function raiseMax(kernel: Kernel, max: number, log: Log): Promise<void> {
  try {
    await setSysctl(kernel, KEY_MAX, max, log);
  } catch (error) {
    throw new StartupError(
      `${errorText(error)}; only the host's own network namespace can raise it: set it ` +
        'there, or leave it alone with --conntrack-max-per-core=0 (conntrack.maxPerCore: 0)',
      { cause: error },
    );
  }
}

async function writeHashsize(file: string, hashsize: number, log: Log): Promise<void> {
  try {
    await writeFile(file, String(hashsize));
  } catch (error) {
    throw new StartupError(
      `${file} cannot be set to ${hashsize}: ${errorCode(error) ?? 'EIO'}; mount /sys writable and run privileged on the host's network, set it on ` +
        'the node beforehand, or leave it alone with --conntrack-max-per-core=0 (conntrack.maxPerCore: 0)',
      { cause: error },
    );
  }
  log.info('connection tracking hash table resized', { hashsize });
}

async function setSysctl(kernel: Kernel, key: string, value: number, log: Log): Promise<void> {
  const { changed, before } = await kernel.setSysctl(key, String(value));
  if (changed) log.info(`sysctl ${key.replaceAll('/', '.')} set`, { value, before });
}
