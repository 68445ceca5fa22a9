import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { daemonArgv } from '../support/daemon.ts';
import { type Ended, linesOf, runToEnd } from '../support/program.ts';
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
  });
});
