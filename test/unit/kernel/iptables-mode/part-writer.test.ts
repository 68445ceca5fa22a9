import { expect, test } from '@jest/globals';
import { type WriteAttempt, PartWriter } from '../../../../src/kernel/iptables-mode/part-writer.ts';
import { RefusedPorts } from '../../../../src/kernel/iptables-mode/refused-ports.ts';
import { ProxyState } from '../../../../src/kernel/iptables-mode/proxy-state.ts';
import type { StateOp } from '../../../../src/kernel/iptables-mode/state-change.ts';
import { address, endpoint, realServer, virtualServer } from '../../../contract/objects.ts';

function service(n: number): StateOp {
  const settings = { scheduler: 'random', servicePort: `default/web-${n}` };
  return { kind: 'add-virtual-server', virtualServer: virtualServer(address(4, n), 80, 'TCP', settings) };
}

test('of more refused service ports than it remembers, those that were tried last are known', async () => {
  const refused: WriteAttempt['refusal'] = {
    errno: 0,
    code: 'IPTABLES',
    text: 'refused',
    isKnownBetter: false,
    atFault: (units) => units,
  };
  const attempts: [count: number, wasRefused: boolean][] = [];
  const writer = new PartWriter(
    {
      state: () => Promise.resolve(new ProxyState(4)),
      attempt: (ops, wasRefused) => {
        attempts.push([ops.length, wasRefused]);
        return Promise.resolve({ failures: [], refusal: refused });
      },
      canWrite: () => Promise.resolve(true),
      mostLines: () => Promise.resolve(Infinity),
    },
    new RefusedPorts(2),
  );
  for (const n of [1, 2, 3]) await writer.write([service(n)]);
  attempts.length = 0;
  await writer.write([1, 2, 3].map(service));
  expect(attempts).toEqual([
    [1, false],
    [1, true],
    [1, true],
  ]);
});

test('a script has a limited number of lines, and each service port is in one script', async () => {
  const scripts: (readonly StateOp[])[] = [];
  const writer = new PartWriter({
    state: () => Promise.resolve(new ProxyState(4)),
    attempt: (ops) => {
      scripts.push(ops);
      return Promise.resolve({ failures: [], refusal: undefined });
    },
    canWrite: () => Promise.resolve(true),
    mostLines: () => Promise.resolve(1_000),
  });
  const ops = [1, 2, 3, 4, 5].flatMap((n): StateOp[] => {
    const added = service(n);
    const id = virtualServer(address(4, n), 80);
    const servers = Array.from({ length: 100 }, (_, at): StateOp => ({
      kind: 'add-real-server',
      id,
      realServer: realServer(endpoint(4, at), 80),
    }));
    return [added, ...servers];
  });
  expect(await writer.write(ops)).toEqual({ failures: [] });
  // 402 lines for each service port.
  expect(scripts.map(({ length }) => length)).toEqual([202, 202, 101]);
});
