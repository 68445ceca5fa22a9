import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { clusterAddress, podAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';
import { ManifestDirectory, SERVICE_PORT, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(patient(300_000));

const OTHER_MODE = TEST_MODE === 'iptables' ? 'ipvs' : 'iptables';
const VIP = clusterAddress(1);

/** A second daemon in another mode, with ports of its own, on a node where one runs. */
let bed: Bed;
let directory: ManifestDirectory;
let first: LongProcess;

const flags = (): readonly string[] => [`--manifests=${directory.path}`];

function secondArgv(more: readonly string[]): readonly string[] {
  const ports = ['--healthz-bind-address=0.0.0.0:20256', '--metrics-bind-address=127.0.0.1:20249', '--query-socket='];
  return daemonArgv(bed.node(0), [...flags(), ...ports, ...more], OTHER_MODE);
}

/** What the two modes write: the lines of ipvsadm, and the chains of iptables mode. */
async function written(): Promise<{ readonly ipvs: boolean; readonly iptables: boolean }> {
  const [ipvs, rules] = await Promise.all([
    bed.node(0).exec(['ipvsadm', '-Sn']),
    bed.node(0).exec(['iptables-save', '-t', 'nat']),
  ]);
  return { ipvs: ipvs.stdout.includes(`${VIP.v4}:`), iptables: rules.stdout.includes(':KUBE-SVC-') };
}

async function answers(): Promise<void> {
  for (const address of [VIP.v4, VIP.v6]) {
    expect(await bed.client(0).probeTcp(address, SERVICE_PORT)).toMatchObject({ ok: true, answeredBy: 'pod-0-0' });
  }
}

beforeAll(async () => {
  bed = await Bed.create({ nodes: 1, podsPerNode: 1, clients: 1 });
  directory = await ManifestDirectory.create();
  await directory.write('nodes', nodeObjects(1));
  await directory.write(
    'web',
    serviceObjects({
      name: 'web',
      clusterIp: VIP,
      protocols: ['TCP'],
      targetPort: SERVICE_PORT,
      endpoints: [{ addresses: podAddress(0, 0), node: 0 }],
    }),
  );
  await bed.pod(0, 0).serveTcp(SERVICE_PORT);
  first = await startDaemon(bed.node(0), flags());
});

afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await directory[Symbol.asyncDispose]();
});

const OWN = { ipvs: TEST_MODE === 'ipvs', iptables: TEST_MODE === 'iptables' };
const OTHERS = { ipvs: OTHER_MODE === 'ipvs', iptables: OTHER_MODE === 'iptables' };

test('it does not start, names the process and the mode of the first one, and changes nothing', async () => {
  const { status, stderr } = await bed.node(0).exec(secondArgv([]), { allowFailure: true });
  expect(status).toBe(1);
  expect(stderr).toMatch(
    new RegExp(
      `another kube-ipvs-proxy runs .*process \\d+, mode ${TEST_MODE}, .*: stop that one first, or .*--take-over`,
    ),
  );
  expect(await written()).toEqual(OWN);
  await answers();
});

test('with --take-over, it serves beside the first one, and removes the objects of its mode when that has ended', async () => {
  const second = await bed.node(0).spawn(secondArgv(['--take-over']));
  await second.waitForOutput(/initial sync complete/, patient(60_000));
  expect(await written()).toEqual({ ipvs: true, iptables: true });
  await answers();
  await first.stop(10_000);
  await second.waitForOutput(/took the lock of this network namespace/, patient(30_000));
  // The objects of ipvs mode stay as long as IPVS remembers closed connections: two minutes.
  const deadline = performance.now() + patient(200_000);
  while (performance.now() < deadline && (await written())[TEST_MODE === 'iptables' ? 'iptables' : 'ipvs']) {
    await answers();
    await setTimeout(500);
  }
  expect(await written()).toEqual(OTHERS);
  await answers();
});
