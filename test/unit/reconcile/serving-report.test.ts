import { expect, test } from '@jest/globals';
import type { CommonFault } from '../../../src/explain/common-fault.ts';
import type { Service } from '../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { endpoint, listed, port, service, slice } from '../../support/objects.ts';
import { Reconciling } from '../../support/reconciling.ts';

const READY = slice('web', ['10.244.0.5', '10.244.0.6', '10.244.0.7']);
const unready = (address: string) => endpoint(address, { ready: false, serving: false });
const applied = (object: typeof READY): SourceEvent => ({ kind: 'endpoint-slice', event: { type: 'applied', object } });

async function started(web: Partial<Service> = {}, slices = [READY]) {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const faults: (CommonFault | undefined)[] = [];
  const run = new Reconciling(kernel, { onCommonFault: (_service, fault) => faults.push(fault) });
  await run.take(...listed([service('web', '10.96.0.10', web)], slices));
  const said = (): string[] => run.log.lines.splice(0).filter((line) => line.includes('default/'));
  return { run, said, faults };
}

test('a Service whose endpoints are all left out is logged once, and again when it is served', async () => {
  const { run, said } = await started();
  expect(said()).toEqual([]);
  await run.take(applied(slice('web', [unready('10.244.0.5'), unready('10.244.0.6'), unready('10.244.0.7')])));
  expect(said()).toEqual([
    'info: default/web does not answer on this node: none of its 3 endpoints is used: not ready',
  ]);
  // Another number of endpoints is the same state.
  await run.take({
    kind: 'service',
    event: { type: 'applied', object: service('web', '10.96.0.10', { sessionAffinity: 'ClientIP' }) },
  });
  await run.pass(30_000);
  expect(said()).toEqual([]);
  await run.take(applied(READY));
  expect(said()).toEqual(['info: default/web is served on this node again, as its endpoints and hints say']);
});

test('a port that no slice has', async () => {
  const { said } = await started({ ports: [port(80, { name: 'http' })] }, [
    { ...READY, ports: [{ name: 'web', protocol: 'TCP', port: 8080 }] },
  ]);
  expect(said()).toEqual([
    'info: default/web does not answer on this node: no port of slice web-a matches the port "http" of the Service: it has "web"',
  ]);
});

test('hints that are ignored', async () => {
  const hinted = slice('web', [
    endpoint('10.244.0.5', { hintZones: ['zone-a'] }),
    endpoint('10.244.0.6', { hintZones: ['zone-b'] }),
  ]);
  const { said } = await started({}, [hinted]);
  expect(said()).toEqual(['info: default/web: hints ignored: our Node has no zone label']);
});

test('a Service without endpoints, or that is deleted, is no news', async () => {
  const { run, said } = await started({}, [slice('web', [])]);
  expect(said()).toEqual([]);
  await run.take(applied(slice('web', [endpoint('10.244.0.5', { ready: false })])));
  expect(said()).toHaveLength(1);
  await run.take({ kind: 'service', event: { type: 'deleted', object: service('web', '10.96.0.10').meta } });
  expect(said()).toEqual([]);
});

test('of many at once, three are named and the others counted', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  const names = Array.from({ length: 10 }, (_, at) => `s${at}`);
  await run.take(
    ...listed(
      names.map((name, at) => service(name, `10.96.1.${at}`)),
      names.map((name) => slice(name, [unready('10.244.0.5')])),
    ),
  );
  expect(run.log.lines.filter((line) => line.includes('does not answer'))).toHaveLength(3);
  expect(run.log.lines).toContain(
    'info: 7 more Services changed (no usable endpoint, ignored hints, or served again): run explain for one of them',
  );
});

test('a port that no slice has is a fault that all nodes find, until it is repaired', async () => {
  const ports = [port(80, { name: 'http' }), port(90, { name: 'prom' })];
  const named = (...names: string[]) => ({
    ...READY,
    ports: names.map((name) => ({ name, protocol: 'TCP' as const, port: 8080 })),
  });
  const { run, faults } = await started({ ports }, [named('http')]);
  const message = 'no port of slice web-a matches the port "prom" of the Service: it has "http"';
  expect(faults).toEqual([{ reason: 'no-endpoint-used', message }]);
  await run.take(applied({ ...named('http'), endpoints: [endpoint('10.244.0.5'), endpoint('10.244.0.8')] }));
  expect(faults).toHaveLength(1);
  await run.take(applied(named('http', 'prom')));
  expect(faults.slice(1)).toEqual([undefined]);
  await run.take(applied(named('prom')));
  await run.take({ kind: 'service', event: { type: 'deleted', object: service('web', '10.96.0.10').meta } });
  expect(faults.slice(2)).toEqual([expect.objectContaining({ reason: 'no-endpoint-used' }), undefined]);
});

test.each<[string, ReturnType<typeof slice>[], Partial<Service>, string | undefined]>([
  [
    'addresses that no proxy can use',
    [slice('web', [endpoint('127.0.0.1'), endpoint('fd00::1')])],
    {},
    'none of its 2 endpoints is used: its address is not valid (1), not of the address type of its slice (1)',
  ],
  [
    'endpoints of a family that the Service does not have',
    [{ ...slice('web', [endpoint('fd00::1')]), addressType: 'IPv6' }],
    {},
    'its only endpoint is not used: the Service has no IPv6 cluster IP',
  ],
  [
    'hints that some endpoints lack',
    [slice('web', [endpoint('10.244.0.5', { hintZones: ['zone-a'] }), '10.244.0.6'])],
    {},
    'hints ignored: 1 of 2 ready endpoints have none',
  ],
  ['endpoints that are not ready', [slice('web', [unready('10.244.0.5'), endpoint('127.0.0.1')])], {}, undefined],
  [
    'hints for zones, of which this node has none',
    [slice('web', [endpoint('10.244.0.5', { hintZones: ['a'] })])],
    {},
    undefined,
  ],
  ['endpoints on other nodes only', [READY], { internalTrafficPolicy: 'Local' }, undefined],
])('what all nodes find: %s', async (_what, slices, web, message) => {
  const { said, faults } = await started(web, slices);
  expect(said()).toHaveLength(1);
  expect(faults.map((fault) => fault?.message)).toEqual(message === undefined ? [] : [message]);
});
