import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { KeptConnection, Namespace } from '../bed/namespace.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { ManifestDirectory, POD_PORT, SERVICE_PORT } from './cluster-objects.ts';

jest.setTimeout(180_000);

const LIGHT = '--ipvs-local-route-cidrs=10.202.0.0/16,fd00:202::/64';
const VIP = clusterAddress(1);
/** Foreign objects, which must not be changed. */
const FOREIGN = '10.210.0.0/16';

/** A node whose daemon is switched to light mode and back while connections of a pod, the node and a client live on. */
describe('light mode is switched on and off', () => {
  let bed: Bed;
  let node: Namespace;
  let directory: ManifestDirectory;
  let daemon: LongProcess | undefined;
  const held: KeptConnection[] = [];

  beforeAll(async () => {
    directory = await ManifestDirectory.ofOnePod(VIP);
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    await bed.pod(0, 0).serveTcp(POD_PORT);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  async function restart(...flags: readonly string[]): Promise<void> {
    await daemon?.stop(10_000);
    daemon = await startDaemon(node, [
      `--manifests=${directory.path}`,
      '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
      '--ipvs-sync-period=2s',
      ...flags,
    ]);
  }

  const bound = async (): Promise<string> => (await node.exec(['ip', 'addr', 'show', 'dev', 'kube-ipvs0'])).stdout;

  async function routes(): Promise<string> {
    const shown = await Promise.all(
      ['-4', '-6'].map((family) => node.exec(['ip', family, 'route', 'show', 'table', 'local', 'proto', '120'])),
    );
    return shown.map(({ stdout }) => stdout).join('');
  }

  async function expectServed(): Promise<void> {
    for (const from of [bed.pod(0, 1), node, bed.client(0)]) {
      for (const address of [VIP.v4, VIP.v6]) {
        const answer = await from.probeTcp(address, SERVICE_PORT);
        expect([from.name, address, answer]).toEqual([from.name, address, expect.objectContaining({ ok: true })]);
      }
    }
    for (const connection of held) expect(await connection.ask()).toMatchObject({ ok: true, answeredBy: 'pod-0-0' });
  }

  test('switching light mode on adds a route and unbinds the address; connections continue', async () => {
    await restart();
    expect(await bound()).toContain(`inet ${VIP.v4}/32`);
    await node.ip([`route add local ${FOREIGN} dev lo table local`]);
    for (const from of [bed.pod(0, 1), node, bed.client(0)]) {
      for (const address of [VIP.v4, VIP.v6]) {
        const connection = await from.hold(address, SERVICE_PORT);
        expect(connection.first).toMatchObject({ ok: true, answeredBy: 'pod-0-0' });
        held.push(connection);
      }
    }
    await restart(LIGHT);
    expect(await bound()).not.toContain('10.202.');
    expect(await bound()).not.toContain('fd00:202:');
    expect(await routes()).toMatch(/^local 10\.202\.0\.0\/16 dev lo/m);
    expect(await routes()).toMatch(/^local fd00:202::\/64 dev lo/m);
    await expectServed();
  });

  test('a full check restores a deleted local route', async () => {
    await node.ip([
      'route del local 10.202.0.0/16 dev lo table local',
      'route del local fd00:202::/64 dev lo table local',
    ]);
    const deadline = Date.now() + 30_000;
    while ((await routes()).split('\n').length < 3 && Date.now() < deadline)
      await new Promise((r) => setTimeout(r, 100));
    await expectServed();
    expect(daemon?.output).toMatch(/kernel state differed from the plan and was repaired.*add-route/);
  });

  test('switching light mode off binds the address and removes our routes; connections continue', async () => {
    await restart();
    expect(await bound()).toContain(`inet ${VIP.v4}/32`);
    expect(await routes()).toBe('');
    await expectServed();
  });

  test('clean-up removes only our routes and addresses', async () => {
    const local = async (): Promise<string> =>
      (await node.exec(['ip', 'route', 'show', 'table', 'local', 'type', 'local'])).stdout;
    expect(await local()).toContain(`local ${FOREIGN} dev lo`);
    await restart(LIGHT);
    expect(await local()).toContain(`local ${FOREIGN} dev lo`);
    await daemon?.stop(10_000);
    await node.exec(daemonArgv(node, ['--cleanup']));
    expect(await routes()).toBe('');
    expect(await local()).not.toContain('10.202.');
    expect(await local()).toContain(`local ${FOREIGN} dev lo`);
  });
});
