import { expect, test } from '@jest/globals';
import type { Service } from '../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { FakeIptables } from '../../fake-kernel/fake-iptables.ts';
import { iptablesPlane } from '../../fake-kernel/planes.ts';
import { startOn } from '../../support/on-plane.ts';
import { refuseOnce } from '../../support/refuse-once.ts';
import { listed, service, slice } from '../../support/objects.ts';
import type { Reconciling } from '../../support/reconciling.ts';

const LOAD_BALANCER_IP = '203.0.113.20';
const SLICE = slice('guarded', ['10.244.0.5']);

function guarded(ranges: readonly string[] = ['198.51.100.0/24']): Service {
  return service('guarded', '10.96.0.20', {
    type: 'LoadBalancer',
    // Its health check adds a rule, and so a write, before the virtual server.
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 31000,
    loadBalancerIngress: [{ ip: LOAD_BALANCER_IP }],
    loadBalancerSourceRanges: ranges,
  });
}

function changed(object: Service): SourceEvent {
  return { kind: 'service', event: { type: 'applied', object } };
}

function rulesOf(programs: FakeIptables, table: string, chain: string): readonly string[] {
  return (programs.tables[4].get(table)?.get(chain) ?? []).filter((rule) => rule.includes(LOAD_BALANCER_IP));
}

function isServed(programs: FakeIptables): boolean {
  return rulesOf(programs, 'nat', 'KUBE-SERVICES').length > 0;
}

/** Whether clients out of the source ranges are served. */
function isOpen(programs: FakeIptables): boolean {
  const drops = rulesOf(programs, 'filter', 'KUBE-PROXY-FIREWALL').some((rule) => rule.endsWith('-j DROP'));
  return isServed(programs) && !drops;
}

const PATHS: Readonly<Record<string, (run: Reconciling) => Promise<unknown>>> = {
  'a first sync': (run) => run.settle(...listed([guarded()], [SLICE])),
  'a new Service': async (run) => {
    await run.take(...listed([], [SLICE]));
    await run.settle(changed(guarded()));
  },
  'other source ranges': async (run) => {
    await run.settle(...listed([guarded(['192.0.2.0/24'])], [SLICE]));
    await run.settle(changed(guarded()));
  },
  'another endpoint': async (run) => {
    await run.settle(...listed([guarded()], [SLICE]));
    const object = slice('guarded', ['10.244.0.5', '10.244.0.6']);
    await run.settle({ kind: 'endpoint-slice', event: { type: 'applied', object } });
  },
};

test.each(Object.keys(PATHS))('%s: whichever write fails, source ranges are enforced at each moment', async (path) => {
  for (let nth = 1, writes = nth; nth <= writes; nth++) {
    const programs = new FakeIptables();
    let opened = 0;
    const counted = refuseOnce(programs, nth, () => (opened += isOpen(programs) ? 1 : 0));
    const { run } = await startOn(iptablesPlane(programs));
    await PATHS[path]?.(run);
    writes = counted.writes();
    for (let syncs = 0; syncs < 4; syncs++) await run.pass(run.clock.nextIn ?? 0);
    expect({ nth, opened, open: isOpen(programs), served: isServed(programs) }).toEqual({
      nth,
      opened: 0,
      open: false,
      served: true,
    });
    await run.reconciler.stop();
  }
});

test('a load balancer IP that gets its first source ranges is withdrawn if they cannot be written', async () => {
  const programs = new FakeIptables();
  const { run } = await startOn(iptablesPlane(programs));
  await run.settle(...listed([guarded([])], [SLICE]));
  expect(isOpen(programs)).toBe(true);
  refuseOnce(programs, 1);
  await run.take(changed(guarded()));
  expect(isServed(programs)).toBe(false);
  await run.pass(1_000);
  expect({ served: isServed(programs), open: isOpen(programs) }).toEqual({ served: true, open: false });
  await run.reconciler.stop();
});

test('a failed write of another endpoint does not withdraw a load balancer IP whose source ranges are in force', async () => {
  const programs = new FakeIptables();
  const { run } = await startOn(iptablesPlane(programs));
  await run.settle(...listed([guarded()], [SLICE]));
  let withdrawn = 0;
  refuseOnce(programs, 1, () => (withdrawn += isServed(programs) ? 0 : 1));
  const object = slice('guarded', ['10.244.0.5', '10.244.0.6']);
  expect(await run.take({ kind: 'endpoint-slice', event: { type: 'applied', object } })).toMatchObject({
    failures: [{ code: 'LOCKED' }, { code: 'LOCKED' }],
  });
  await run.pass(1_000);
  expect({ withdrawn, served: isServed(programs) }).toEqual({ withdrawn: 0, served: true });
  await run.reconciler.stop();
});
