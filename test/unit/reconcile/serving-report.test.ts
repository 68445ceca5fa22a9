import { expect, test } from '@jest/globals';
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
  const run = new Reconciling(kernel);
  await run.take(...listed([service('web', '10.96.0.10', web)], slices));
  const said = (): string[] => run.log.lines.splice(0).filter((line) => line.includes('default/'));
  return { run, said };
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
    'info: 7 more Services began or ceased to use no endpoint, or to ignore hints: ask explain about one',
  );
});
