import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { FaultRule } from '../apiserver/faults.ts';
import { StatusError } from '../apiserver/status.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { Bed, JSON_ONLY, PROTOBUF, service, slice } from './harness.ts';

type Step =
  | { readonly do: 'service'; readonly name: string; readonly address: string; readonly label: string }
  | { readonly do: 'slice'; readonly name: string; readonly headless: boolean }
  | { readonly do: 'delete'; readonly name: string }
  | { readonly do: 'compact' | 'drop' | 'garbage' | 'half' | 'end' | 'silence' | 'bookmark' | 'error' | 'pause' }
  | { readonly do: 'fault'; readonly rule: FaultRule };

/** The beginning of an event. */
const HALF = { json: '{"type":"DELETED","obj', protobuf: Buffer.from([0, 0, 1, 0, 10, 7, 68, 69]) };

const name = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f');

const fault: fc.Arbitrary<FaultRule> = fc.record({
  verb: fc.constantFrom('list', 'watch'),
  fault: fc.oneof(
    fc.record({ type: fc.constant('status'), code: fc.constantFrom(410, 429, 500, 503) }),
    fc.record({ type: fc.constant('drop') }),
    fc.record({
      type: fc.constant('cut'),
      afterBytes: fc.integer({ min: 0, max: 2000 }),
      ending: fc.constantFrom('close', 'silence'),
    }),
    fc.record({ type: fc.constant('slow'), bytes: fc.integer({ min: 7, max: 400 }), pauseMs: fc.constant(0) }),
    fc.record({
      type: fc.constant('garbage'),
      line: fc.constantFrom('{', 'null', '{"type":"NEW"}', '502 Bad Gateway'),
    }),
    fc.record({ type: fc.constant('expire') }),
  ),
}) as fc.Arbitrary<FaultRule>;

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('service'),
      name,
      address: fc.constantFrom('10.96.0.1', '10.96.0.2', 'None'),
      label: fc.constantFrom('', '', 'service.kubernetes.io/service-proxy-name', 'service.kubernetes.io/headless'),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('slice'), name, headless: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('delete'), name }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('compact', 'drop', 'garbage', 'half', 'end', 'silence', 'bookmark', 'error', 'pause'),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('fault'), rule: fault }) },
) as fc.Arbitrary<Step>;

async function take({ server }: Bed, next: Step): Promise<void> {
  switch (next.do) {
    case 'service': {
      const labels: Record<string, string> = next.label === '' ? {} : { [next.label]: 'x' };
      return void server.apply(service(next.name, next.address, { labels }));
    }
    case 'slice': {
      const labels: Record<string, string> = next.headless ? { 'service.kubernetes.io/headless': '' } : {};
      return void server.apply(slice(next.name, ['10.0.0.1'], labels));
    }
    case 'delete':
      if (server.objects('services', 'v1').some(({ metadata }) => metadata.name === next.name))
        server.delete(service(next.name, ''));
      return;
    case 'compact':
      return server.compact();
    case 'drop':
      return server.dropConnections();
    case 'garbage':
      return server.eachWatch((watch) => watch.raw('\u0000garbage\n'));
    case 'half':
      return server.eachWatch((watch) => (watch.raw(HALF[watch.encoding]), watch.end()));
    case 'end':
      return server.eachWatch((watch) => watch.end());
    case 'silence':
      // Send a bookmark first: otherwise the client notices silence only at the end of the watch.
      return server.eachWatch((watch) => (watch.bookmark(), watch.silence()));
    case 'bookmark':
      return server.eachWatch((watch) => watch.bookmark());
    case 'error':
      return server.eachWatch((watch) => (watch.error(new StatusError(500, 'InternalError', 'oops')), watch.end()));
    case 'pause':
      return await sleep(15);
    case 'fault':
      return server.faults.add(next.rule);
  }
}

/** After any history, the source has the state of the server, and has emitted each change once and in order. */
test('random histories with random faults end with the state of the server', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }),
      fc.boolean(),
      fc.constantFrom(PROTOBUF, JSON_ONLY.accept),
      async (steps, watchList, accept) => {
        const bed = new Bed({ watchList, bookmarkMs: 25 });
        try {
          await bed.server.start();
          bed.follow(
            {
              pageSize: 1,
              backoff: { firstMs: 2, maxMs: 8 },
              silenceMs: 60,
              listIdleMs: 60,
              watchSeconds: [1, 1],
              graceMs: 20,
            },
            { accept },
          );
          for (const next of steps) {
            await take(bed, next);
            await sleep(1);
          }
          bed.server.faults.clear();
          await eventually(() => {
            expect(bed.view.of('service')).toEqual(bed.expected('services'));
            expect(bed.view.of('endpoint-slice')).toEqual(bed.expected('endpointslices'));
            expect(bed.view.types('node')).toContain('replaced');
          });
          expect(bed.view.breaches).toEqual([]);
        } finally {
          await bed.stop();
        }
      },
    ),
    { numRuns: 40, endOnFailure: true },
  );
}, 60_000);
