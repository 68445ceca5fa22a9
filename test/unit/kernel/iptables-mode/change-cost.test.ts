import { expect, test } from '@jest/globals';
import { FakeIptables } from '../../../fake-kernel/fake-iptables.ts';
import { iptablesPlane } from '../../../fake-kernel/planes.ts';
import { startOn } from '../../../support/on-plane.ts';
import { LargeService, sliceApplied } from '../../../support/large-service.ts';
import { listed, service, slice } from '../../../support/objects.ts';

const PORTS = 10;

/** Starts with a Service of many endpoints and a small one. Returns what one endpoint less of the large one costs. */
async function cost(endpoints: number) {
  const programs = new FakeIptables();
  const { run } = await startOn(iptablesPlane(programs));
  const large = new LargeService(PORTS);
  const other = [service('other', '10.96.0.20'), slice('other', ['10.245.0.1', '10.245.0.2'])] as const;
  await run.settle(...listed([large.service, other[0]], [large.slice(endpoints), other[1]]));
  const { reads } = programs;
  programs.scripts.length = 0;
  const report = await run.take(sliceApplied(large.slice(endpoints, [endpoints - 1])));
  expect(report).toMatchObject({ kind: 'change', ok: true, failures: [] });
  const lines = programs.scripts.flatMap((script) => script.trimEnd().split('\n'));
  return { reads: programs.reads - reads, scripts: programs.scripts.length, lines };
}

test.each([50, 500])('one of %i endpoints less is one script, and no reading of the tables', async (endpoints) => {
  expect(await cost(endpoints)).toMatchObject({ reads: 0, scripts: 1 });
});

test('one endpoint less writes of each port the chain that chooses, and deletes the chain of the endpoint', async () => {
  for (const endpoints of [50, 500]) {
    const { lines } = await cost(endpoints);
    // Of the table, two lines. Of each port, two declarations, the rule that marks, those of the endpoints, and a deletion.
    expect(lines).toHaveLength(2 + PORTS * (2 + 1 + (endpoints - 1) + 1));
    expect(lines.filter((line) => line.includes('other'))).toEqual([]);
  }
});
