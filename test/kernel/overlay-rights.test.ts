import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import { Bed } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { unloadIpvs } from '../contract/unload-ipvs.ts';
import { daemonArgv, querySocketOf } from '../support/daemon.ts';
import { type Ended, PROGRAM, linesOf, runToEnd } from '../support/program.ts';
import { at, build, itemsOf } from '../unit/manifests/kustomization.ts';

jest.setTimeout(180_000);

const FLAGS = ['--manifests=manifests/demo', '--hostname-override=node-0'];

/** The rights that manifests/overlays/restricted leaves to the main container. */
function capabilities(): readonly string[] {
  const daemonSet = build('manifests/overlays/restricted').objects.find(({ kind }) => kind === 'DaemonSet') ?? {};
  const [container = {}] = itemsOf(at(daemonSet, 'spec', 'template', 'spec')['containers']);
  const added = at(container, 'securityContext', 'capabilities')['add'];
  return Array.isArray(added) ? added.map((name) => String(name).toLowerCase()) : [];
}

/** In its own view of the files, as a container has it: nothing can be written, /proc/sys and /sys neither. */
const READ_ONLY = `set -eu
mount --make-rprivate /
mount -o remount,bind,ro /
for folder in /proc/sys /sys /tmp; do
  mount --rbind "$folder" "$folder"
  mount -o remount,bind,ro "$folder"
done
for file in /usr/x /tmp/x /proc/sys/net/ipv4/ip_forward; do
  if (echo 1 >"$file") 2>/dev/null; then echo "$file can be written"; exit 99; fi
done
exec "$@"`;

function restricted(caps: readonly string[], argv: readonly string[]): string[] {
  const set = ['-all', ...caps.map((name) => `+${name}`)].join(',');
  const rights = ['setpriv', `--bounding-set=${set}`, `--inh-caps=${set}`, '--no-new-privs'];
  return ['unshare', '--mount', 'bash', '-c', READ_ONLY, 'bash', ...rights, ...argv];
}

/** How a mode shows on the node, and what another program does to it. Debian's User-Mode Linux has no nf_tables. */
const OTHER_MODES = [
  {
    mode: 'iptables',
    shows: ['iptables-save', '-t', 'nat'],
    shown: '-d 10.202.0.10/32 -p tcp',
    damage: ['iptables', '-t', 'nat', '-F', 'KUBE-SERVICES'],
  },
  {
    mode: 'nftables',
    shows: ['nft', 'list', 'map', 'ip', 'kube-proxy', 'service-ips'],
    shown: '10.202.0.10 . tcp . 80',
    damage: ['nft', 'delete', 'table', 'ip', 'kube-proxy'],
  },
].filter(({ mode }) => mode !== 'nftables' || process.env['KERNEL_USED'] !== 'uml') as readonly {
  readonly mode: ProxyMode;
  readonly shows: readonly string[];
  readonly shown: string;
  readonly damage: readonly string[];
}[];

/** The rights of the overlay, held against a real kernel: enough, and none too many. */
describe('the rights of manifests/overlays/restricted', () => {
  let bed: Bed;
  let node: Namespace;

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 1 });
    node = bed.node(0);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
  });

  async function start(argv: readonly string[]): Promise<Ended> {
    return await runToEnd(['ip', 'netns', 'exec', node.netns, ...argv], { timeoutMs: 60_000 });
  }

  test('the restricted overlay has two capabilities', () => {
    expect(capabilities()).toEqual(['net_admin', 'net_raw']);
  });

  test('a start without the init container names the sysctl that it cannot write', async () => {
    const { status, stderr } = await start(restricted(capabilities(), daemonArgv(node, FLAGS)));
    expect(status).toBe(1);
    expect(linesOf(stderr).join('\n')).toMatch(/sysctl net\/\S+ cannot be set to .*: run privileged/);
  });

  test.each(['net_admin', 'net_raw'])('the restricted overlay does not work without %s', async (without) => {
    const caps = capabilities().filter((name) => name !== without);
    const { status, stderr } = await start(restricted(caps, daemonArgv(node, FLAGS)));
    expect(status).toBe(1);
    expect(linesOf(stderr)).toHaveLength(1);
  });

  test('the rights of the restricted overlay suffice after --init-only for the first sync and full checks', async () => {
    const init = await start(daemonArgv(node, [...FLAGS, '--init-only']));
    expect({ status: init.status, last: linesOf(init.stderr).at(-1) }).toEqual({
      status: 0,
      last: 'I node set-up complete',
    });
    const flags = [...FLAGS, '--ipvs-sync-period=1s'];
    const daemon = await node.spawn(restricted(capabilities(), daemonArgv(node, flags)));
    await daemon.waitForOutput(/initial sync complete.* failures=0/, 60_000);
    expect((await node.exec(['ipvsadm', '-Sn'])).stdout).toContain('-A -t 10.202.0.10:80');
    expect((await node.exec(['iptables-save', '-t', 'nat'])).stdout).toContain('-A PREROUTING');
    // Another program removes objects: the remaining rights suffice to restore them.
    await node.exec(['ipvsadm', '-C']);
    await daemon.waitForOutput(/kernel state differed from the plan and was repaired/, 20_000);
    expect((await node.exec(['ipvsadm', '-Sn'])).stdout).toContain('-A -t 10.202.0.10:80');
    await daemon.stop(10_000);
  });

  test.each(OTHER_MODES)('they suffice in $mode mode, too', async ({ mode, shows, shown, damage }) => {
    const init = await start(daemonArgv(node, [...FLAGS, '--init-only'], mode));
    expect({ status: init.status, last: linesOf(init.stderr).at(-1) }).toEqual({
      status: 0,
      last: 'I node set-up complete',
    });
    const flags = [...FLAGS, '--iptables-sync-period=1s'];
    const daemon = await node.spawn(restricted(capabilities(), daemonArgv(node, flags, mode)));
    await daemon.waitForOutput(/initial sync complete.* failures=0/, 60_000);
    expect((await node.exec(shows)).stdout).toContain(shown);
    await node.exec(damage);
    await daemon.waitForOutput(/kernel state differed from the plan and was repaired/, 20_000);
    expect((await node.exec(shows)).stdout).toContain(shown);
    await daemon.stop(10_000);
  });

  /** The kernel's program that loads modules; another one makes the kernel unable to load any. */
  async function setModprobe(program: string): Promise<void> {
    await node.exec(['sysctl', '-q', '-w', `kernel.modprobe=${program}`]);
  }

  test('ip_vs is unloaded: the kernel loads it again, or health, status and one line of the log say why not', async () => {
    // Other network namespaces of this machine may be using it.
    if (process.env['KERNEL_USED'] === 'native') return;
    const unload = (): Promise<void> => unloadIpvs({ run: async (...argv) => (await node.exec(argv)).stdout });
    const probe = async (name: string): Promise<string> =>
      (await node.exec(['curl', '-sS', '-w', ' %{http_code}', `http://127.0.0.1:10256/${name}`])).stdout;
    const flags = [...FLAGS, '--ipvs-sync-period=2s'];
    const daemon = await node.spawn(restricted(capabilities(), daemonArgv(node, flags)));
    await daemon.waitForOutput(/initial sync complete/, 60_000);
    await unload();
    await daemon.waitForOutput(/the kernel module ip_vs was unloaded: full check started/, 60_000);
    await daemon.waitForOutput(/kernel state differed from the plan and was repaired/, 60_000);
    expect((await node.exec(['ipvsadm', '-Sn'])).stdout).toContain('-A -t 10.202.0.10:80');
    // The new module has the kernel's defaults, and /proc/sys is read-only here.
    expect(daemon.output).toMatch(/sysctl net\/ipv4\/vs\/conntrack cannot be set to 1 .*delete the Pod/);
    const modprobe = (await node.exec(['sysctl', '-n', 'kernel.modprobe'])).stdout.trim();
    await setModprobe('/bin/false');
    try {
      await unload();
      await daemon.waitForOutput(/sync failed, .*the kernel module ip_vs is not loaded/, 60_000);
      expect(await probe('healthz')).toMatch(/"reason":"the kernel module ip_vs is not loaded.*delete the Pod.* 503$/);
      expect(await probe('livez')).toMatch(/ 200$/);
      const asked = [process.execPath, PROGRAM, 'status', `--query-socket=${querySocketOf(node)}`];
      expect((await node.exec(asked, { allowFailure: true })).stdout).toMatch(
        /the\s+kernel\s+module\s+ip_vs\s+is\s+not\s+loaded/,
      );
    } finally {
      await setModprobe(modprobe);
    }
    await daemon.waitForOutput(/(ip_vs was unloaded: full check started[^]*){2}/, 60_000);
    expect(daemon.output.match(/sync failed/g)).toHaveLength(1);
    await daemon.stop(10_000);
  });
});
