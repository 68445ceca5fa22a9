import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { CommandResult } from '../bed/command.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { DNS } from './added-services.ts';
import { leaveKubeProxyState, leaveStaleState, syncAsKubeProxy } from './kube-proxy-state.ts';

jest.setTimeout(patient(600_000));

const BUNDLE = path.resolve('build/kube-ipvs-proxy.mjs');
const FLAGS = ['--cluster-cidr=10.201.0.0/16,fd00:201::/48', '--ipvs-scheduler=rr'];
const COMPARED = /kernel and plan compared: [^"]*/g;

let folder: string;
let bed: Bed;
let node: Namespace;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'shadow-'));
  await cp('manifests/demo', folder, { recursive: true });
  await writeFile(path.join(folder, 'dns.yaml'), DNS);
});

afterAll(() => rm(folder, { recursive: true }));

/** Everything on the node that the daemon could change, byte for byte, without what changes by itself. */
async function stateOf(): Promise<string> {
  const tools = ['ipvsadm -Sn', 'ipvsadm -Ln --timeout', 'ipset save', 'iptables-save', 'ip6tables-save', 'ip addr'];
  const more = ['ip route show table local', 'ip -6 route show table local', 'sysctl net.ipv4.vs net.ipv4.ip_forward'];
  const texts: string[] = [];
  for (const tool of [...tools, ...more]) texts.push((await node.exec(tool.split(' '))).stdout);
  // The comments of iptables-save have the time. The kernel itself ends the detection of duplicates of an address, and adds the
  // routes of link-local ones then.
  return texts
    .join('\n')
    .replaceAll(' tentative', '')
    .replaceAll(/^(local|anycast) fe80::.*\n/gm, '')
    .replaceAll(/^#.*$/gm, '')
    .replaceAll(/ \[\d+:\d+\]$/gm, '');
}

function socket(): string {
  return `/run/kube-ipvs-proxy/${process.pid}-shadow.sock`;
}

/** The shadow of the test that runs. */
let shadow: LongProcess;

afterEach(() => shadow.stop(10_000));

/** Starts a shadow, and waits for its first report. It logs every netlink message. */
async function startShadow(prefix: readonly string[] = []): Promise<void> {
  const argv = daemonArgv(node, [...FLAGS, `--manifests=${folder}`, '--dry-run', '-v=9', '--ipvs-sync-period=5s']);
  shadow = await node.spawn([...prefix, ...argv, `--query-socket=${socket()}`]);
  await shadow.waitForOutput(/kernel and plan compared/, patient(180_000));
}

function ask(...argv: readonly string[]): Promise<CommandResult> {
  return node.exec([process.execPath, BUNDLE, ...argv, `--query-socket=${socket()}`], { allowFailure: true });
}

async function metrics(): Promise<readonly string[]> {
  const { stdout } = await node.exec(['curl', '-sS', 'http://127.0.0.1:10349/metrics']);
  return stdout.split('\n');
}

/** What the shadow has sent to the kernel, and which programs it has started. */
async function expectOnlyReads(): Promise<void> {
  const sent = Array.from(shadow.output.matchAll(/netlink sent: (\S+)/g), ([, name = '']) => name);
  expect(sent.length).toBeGreaterThan(10);
  expect([...new Set(sent)].filter((name) => !/GET|_LIST$|_PROTOCOL$/.test(name))).toEqual([]);
  const started = (await metrics()).filter((line) => line.startsWith('kubeipvs_processes_started_total{'));
  expect(started.length).toBeGreaterThan(0);
  expect(started.filter((line) => !/program="ip6?tables(-nft|-legacy)?-save"/.test(line))).toEqual([]);
}

describe('beside our own daemon', () => {
  let daemon: LongProcess;

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 1, podsPerNode: 2 });
    node = bed.node(0);
    daemon = await startDaemon(node, [...FLAGS, `--manifests=${folder}`, '--bind-address-hard-fail']);
    await daemon.waitForOutput(/synced|initial sync complete/, patient(30_000));
  });

  afterAll(() => bed[Symbol.asyncDispose]());

  test('a shadow finds no difference, and leaves the kernel as it is, byte for byte', async () => {
    const before = await stateOf();
    await startShadow();
    expect(shadow.output.match(COMPARED)).toEqual(['kernel and plan compared: no unexpected differences']);
    expect(await ask('diff')).toEqual({
      status: 0,
      stdout: 'the kernel against the plan of this dry run: no unexpected differences\n',
      stderr: '',
    });
    const { status, stdout } = await ask('status');
    expect(stdout.split('\n')[0]).toMatch(
      /^kube-ipvs-proxy is a shadow on node node-0 \(--dry-run\) and changes nothing/,
    );
    expect(status).toBe(0);
    await expectOnlyReads();
    expect(shadow.output).not.toMatch(/another kube-ipvs-proxy runs|address already in use/);
    await shadow.stop(10_000);
    expect(shadow.exit).toBe(0);
    expect(await stateOf()).toBe(before);
    expect(daemon.exit).toBeUndefined();
  });

  test('a shadow writes no file but its socket', async () => {
    const marker = path.join(folder, '.marker');
    await writeFile(marker, '');
    // Nothing outside of /run and /tmp, which are mounts of their own and writable, can be written.
    await startShadow(['sh', '-ec', 'mount -o remount,bind,ro /; exec "$@"', 'sh']);
    expect((await ask('diff')).status).toBe(0);
    // The files of this test kernel's own folders: a checkout in /tmp is another file system there.
    const changed = ['find', '/run', '/tmp', '/dev/shm', '-xdev', '-newer', marker, '-not', '-type', 'd'];
    const { stdout } = await node.exec([...changed, '-not', '-path', '/tmp/jest*']);
    expect(stdout).toBe(`${socket()}\n`);
    expect(shadow.output).not.toMatch(/EROFS|ead-only file system/);
    await shadow.stop(10_000);
    expect((await node.exec([...changed, '-not', '-path', '/tmp/jest*'])).stdout).toBe('');
  });

  test('what another program breaks is in the metrics and the log until our daemon repairs it', async () => {
    await startShadow();
    await daemon.stop(10_000);
    await node.exec(['ipvsadm', '-D', '-t', '10.202.0.10:80']);
    const before = await stateOf();
    await shadow.waitForOutput(/3 unexpected differences/, patient(180_000));
    expect(shadow.output).toContain('ipvsadm -A -t 10.202.0.10:80 -s rr');
    expect(await metrics()).toEqual(
      expect.arrayContaining([
        'kubeipvs_shadow_differences{object="virtual-server",kind="unexpected"} 1',
        'kubeipvs_shadow_differences{object="real-server",kind="unexpected"} 2',
      ]),
    );
    expect((await ask('diff')).status).toBe(1);
    expect((await ask('status')).stdout).toContain('a shadow (--dry-run): 3 unexpected differences');
    expect(await stateOf()).toBe(before);
    daemon = await startDaemon(node, [...FLAGS, `--manifests=${folder}`]);
    await shadow.waitForOutput(/3 unexpected(.|\n)*compared: no unexpected differences/, patient(180_000));
  });
});

describe('beside kube-proxy in ipvs mode', () => {
  beforeAll(async () => {
    bed = await Bed.create({ nodes: 1, podsPerNode: 2 });
    node = bed.node(0);
    await leaveKubeProxyState(node, 1024);
  });

  afterAll(() => bed[Symbol.asyncDispose]());

  test('a shadow finds only known differences, and leaves the kernel as it is, byte for byte', async () => {
    const before = await stateOf();
    await startShadow();
    const { stdout } = await ask('diff', '-o', 'json');
    const { operations } = JSON.parse(stdout) as { operations: readonly { known?: string; command: string }[] };
    expect(operations.filter(({ known }) => known === undefined)).toEqual([]);
    expect([...new Set(operations.map(({ known = '' }) => known))].toSorted()).toEqual([
      'additional-rules',
      'ipv6-lifetime',
      'node-port-addresses',
      'rule-text',
    ]);
    expect(shadow.output.match(COMPARED)).toEqual([
      expect.stringMatching(
        /^kernel and plan compared: no unexpected differences, and \d+ known ones \(additional-rules/,
      ),
    ]);
    await expectOnlyReads();
    await shadow.stop(10_000);
    expect(shadow.exit).toBe(0);
    expect(await stateOf()).toBe(before);
  });

  test('what is left of Services that are gone is unexpected', async () => {
    await leaveStaleState(node);
    const before = await stateOf();
    await startShadow();
    const { status, stdout } = await ask('diff');
    expect(status).toBe(1);
    expect(stdout).toContain('\nipvsadm -D -t 10.202.0.99:80\n');
    expect(stdout).toContain('\nip addr del 10.202.0.99/32 dev kube-ipvs0\n');
    // A real server that drains is left to the proxy that drains it.
    expect(stdout).not.toContain('10.201.0.12');
    // Virtual servers of other programs.
    expect(stdout).not.toMatch(/10\.200\.0\.77|8443/);
    await shadow.stop(10_000);
    expect(await stateOf()).toBe(before);
  });

  test('after the way there and back, a shadow finds only known differences', async () => {
    const daemon = await startDaemon(node, [...FLAGS, `--manifests=${folder}`]);
    await daemon.stop(10_000);
    await syncAsKubeProxy(node);
    const before = await stateOf();
    await startShadow();
    const { status, stdout } = await ask('diff', '-o', 'json');
    const { operations } = JSON.parse(stdout) as { operations: readonly { known?: string }[] };
    expect([...new Set(operations.map(({ known }) => known))]).toEqual(['rule-text']);
    expect(status).toBe(0);
    await shadow.stop(10_000);
    expect(await stateOf()).toBe(before);
  });
});
