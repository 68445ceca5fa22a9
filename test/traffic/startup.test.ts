import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { daemonArgv } from '../support/daemon.ts';
import { type Ended, PROGRAM, linesOf, runToEnd } from '../support/program.ts';

jest.setTimeout(180_000);

/** On a kernel that has IPVS: what a start that fails, or waits, does to the node. */
describe('a start', () => {
  let folder: string;
  let bed: Bed;
  let node: Namespace;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'startup-'));
  });

  afterAll(async () => {
    await rm(folder, { recursive: true });
  });

  beforeEach(async () => {
    bed = await Bed.create({ nodes: 1 });
    node = bed.node(0);
  });

  afterEach(async () => {
    await bed[Symbol.asyncDispose]();
  });

  async function start(...flags: readonly string[]): Promise<Ended> {
    const argv = ['ip', 'netns', 'exec', node.netns, ...daemonArgv(node, [`--manifests=${folder}/none`, ...flags])];
    return await runToEnd(argv, { timeoutMs: 60_000 });
  }

  /** All that a proxy could have written, by the system's own tools. */
  async function holdings(): Promise<Record<string, string>> {
    const found: Record<string, string> = {};
    for (const command of [
      'ipvsadm -Sn',
      'ipset save',
      'iptables-save',
      'ip6tables-save',
      'ip -brief link show type dummy',
    ]) {
      const { stdout } = await node.exec(command.split(' '));
      // A table that was only looked at is printed empty: what counts is rules and chains that the kernel does not bring along.
      const counts = (line: string): boolean => !command.includes('tables') || /^-|^:\S+ - /.test(line);
      found[command] = stdout.split('\n').filter(counts).join('\n');
    }
    return found;
  }

  const EMPTY = {
    'ipvsadm -Sn': '',
    'ipset save': '',
    'iptables-save': '',
    'ip6tables-save': '',
    'ip -brief link show type dummy': '',
  };

  test('a start with a scheduler that the kernel lacks names its module and leaves nothing behind', async () => {
    const sysctls = async (): Promise<string> =>
      (await node.exec(['sysctl', 'net.ipv4.vs.conntrack', 'net.ipv4.vs.expire_nodest_conn'])).stdout;
    const before = await sysctls();
    const { status, stdout, stderr } = await start('--ipvs-scheduler=nosuch');
    expect({ status, stdout, lines: linesOf(stderr) }).toEqual({
      status: 1,
      stdout: '',
      lines: [
        'E the kernel has no IPVS scheduler nosuch: is the module ip_vs_nosuch missing? Run `modprobe ip_vs_nosuch` on the node',
      ],
    });
    expect(await holdings()).toEqual(EMPTY);
    expect(await sysctls()).toBe(before);
  });

  test('a start with --bind-address-hard-fail and a port in use names the port and leaves nothing behind', async () => {
    // The port is taken inside the node: by a server of its agent.
    await node.serveTcp(10_256);
    const { status, stderr } = await start('--bind-address-hard-fail');
    expect(status).toBe(1);
    expect(linesOf(stderr)).toEqual([
      expect.stringMatching(
        /^I kube-ipvs-proxy is starting .* mode="ipvs" .* families=\["IPv4".* kernel=".*" .* manifests="/,
      ),
      expect.stringMatching(
        /^E the health server cannot listen on 0\.0\.0\.0:10256: listen EADDRINUSE.*; free the port, choose another address, or drop --bind-address-hard-fail$/,
      ),
    ]);
    expect(await holdings()).toEqual(EMPTY);
  });

  test('a start that needs pod CIDRs, without any in the Node, names the problem and leaves nothing behind', async () => {
    const argv = daemonArgv(node, [
      '--manifests=manifests/demo',
      '--hostname-override=another-node',
      '--detect-local-mode=NodeCIDR',
    ]);
    const { status, stderr } = await runToEnd(['ip', 'netns', 'exec', node.netns, ...argv], { timeoutMs: 60_000 });
    expect(status).toBe(1);
    expect(linesOf(stderr).filter((line) => !line.startsWith('I '))).toEqual([
      'E detectLocalMode NodeCIDR needs spec.podCIDRs in our Node object, and there is no Node named another-node: check ' +
        '--hostname-override against kubectl get nodes',
    ]);
    expect(await holdings()).toEqual(EMPTY);
  });

  test('a start without the addon names the command that builds it', async () => {
    const program = path.join(folder, 'kube-ipvs-proxy.mjs');
    await cp(PROGRAM, program);
    await cp(PROGRAM.replace(/mjs$/, 'js'), program.replace(/mjs$/, 'js'));
    await symlink(path.resolve('node_modules'), path.join(folder, 'node_modules'));
    const { status, stderr } = await runToEnd(
      ['ip', 'netns', 'exec', node.netns, process.execPath, program, '--proxy-mode=ipvs', `--manifests=${folder}/none`],
      { timeoutMs: 60_000 },
    );
    expect({ status, lines: linesOf(stderr) }).toEqual({
      status: 1,
      lines: [
        "E the netlink addon cannot be loaded (Cannot find module './native/netlink_socket.node'): run `make build` with the " +
          'Node.js and on the kind of machine that is to run it',
      ],
    });
    expect(await holdings()).toEqual(EMPTY);
  });

  test('a start without its manifest directory warns, writes nothing, and continues when the directory appears', async () => {
    const directory = path.join(folder, 'late');
    const daemon = await node.spawn(daemonArgv(node, [`--manifests=${directory}`]));
    await daemon.waitForOutput(
      /failed to read manifest directory .*late: it does not exist; nothing is programmed until it can be read/,
      60_000,
    );
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(daemon.exit).toBeUndefined();
    expect(await holdings()).toEqual(EMPTY);
    await cp('manifests/demo', directory, { recursive: true });
    await daemon.waitForOutput(/initial sync complete/, 60_000);
    expect((await node.exec(['ipvsadm', '-Sn'])).stdout).toContain('-A -t 10.202.0.10:80 -s rr');
    expect(daemon.output.match(/failed to read manifest directory/g)).toHaveLength(1);
  });
});
