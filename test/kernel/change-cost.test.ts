import { expect, jest, test } from '@jest/globals';
import { patient } from '../bed/patience.ts';
import { LinuxBed } from '../contract/linux-bed.ts';
import { LargeService, sliceApplied } from '../support/large-service.ts';
import { listed } from '../support/objects.ts';
import { Transaction } from '../../src/state/transaction.ts';
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

test('in ipvs mode, a full check dumps only the lists of IPv4 real servers that are not as planned', async () => {
  await using bed = await LinuxBed.make();
  await bed.kernel.prepare();
  const run = new Reconciling(bed.kernel);
  const large = new LargeService(PORTS);
  await run.settle(...listed([large.service], [large.slice(2)]));
  const check = async () => {
    const before = bed.kernel.counters.netlinkMessages;
    const report = await run.pass(30_000);
    expect(report).toMatchObject({ kind: 'full', ok: true });
    return { messages: bed.kernel.counters.netlinkMessages - before, drift: report.drift.length };
  };
  const unchanged = await check();
  expect(unchanged.drift).toBe(0);
  expect(unchanged.messages).toBeLessThan(PORTS / 2);
  const [drifted] = [...run.reconciler.plan.virtualServers()];
  const realServer = drifted?.realServers[0];
  if (drifted === undefined || realServer === undefined) throw new Error('nothing is planned');
  const op = { kind: 'edit-real-server', id: drifted.virtualServer, realServer: { ...realServer, weight: 7 } } as const;
  expect(await bed.kernel.apply(new Transaction([op]))).toEqual({ failures: [] });
  // The list, both again before anything is written, and the repair.
  const repaired = await check();
  expect(repaired.drift).toBe(1);
  expect(repaired.messages - unchanged.messages).toBe(4);
  await run.reconciler.stop();
});
