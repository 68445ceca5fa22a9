import { expect, jest, test } from '@jest/globals';
import { patient } from '../bed/patience.ts';
import { LinuxBed } from '../contract/linux-bed.ts';
import { LargeService, sliceApplied } from '../support/large-service.ts';
import { listed } from '../support/objects.ts';
import { Reconciling } from '../support/reconciling.ts';

jest.setTimeout(patient(300_000));

const PORTS = 100;

/** Returns what one endpoint less, then another one, then both again cost: messages and bytes of netlink in either direction. */
async function costs(endpoints: number) {
  await using bed = await LinuxBed.make();
  await bed.kernel.prepare();
  const run = new Reconciling(bed.kernel);
  const large = new LargeService(PORTS);
  expect(await run.settle(...listed([large.service], [large.slice(endpoints)]))).toMatchObject({ ok: true });
  const found: { readonly messages: number; readonly sent: number; readonly received: number }[] = [];
  for (const without of [[1], [1, 7], []]) {
    const before = { ...bed.kernel.counters };
    const report = await run.take(sliceApplied(large.slice(endpoints, without)));
    expect(report).toMatchObject({ kind: 'change', ok: true, failures: [] });
    const after = bed.kernel.counters;
    found.push({
      messages: after.netlinkMessages - before.netlinkMessages,
      sent: after.netlinkBytesSent - before.netlinkBytesSent,
      received: after.netlinkBytesReceived - before.netlinkBytesReceived,
    });
  }
  const servers = (await bed.ipvs()).filter((line) => line.startsWith('-a '));
  expect(servers).toHaveLength(PORTS * endpoints);
  expect(servers.filter((line) => line.endsWith('-w 1'))).toHaveLength(PORTS * endpoints);
  await run.reconciler.stop();
  return found;
}

test('in ipvs mode, an endpoint of 100 ports costs the same whether there are 50 or 500 of it', async () => {
  const few = await costs(50);
  expect(few.map(({ messages }) => messages)).toEqual([PORTS, PORTS, 2 * PORTS]);
  expect(await costs(500)).toEqual(few);
});
