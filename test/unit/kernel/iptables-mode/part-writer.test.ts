import { expect, test } from '@jest/globals';
import { KernelError } from '../../../../src/kernel/kernel-error.ts';
import { type Attempt, PartWriter } from '../../../../src/kernel/iptables-mode/part-writer.ts';
import { ProxyState } from '../../../../src/kernel/iptables-mode/proxy-state.ts';
import type { StateOp } from '../../../../src/kernel/iptables-mode/state-change.ts';
import { address, virtualServer } from '../../../contract/objects.ts';

function service(n: number): StateOp {
  const settings = { scheduler: 'random', servicePort: `default/web-${n}` };
  return { kind: 'add-virtual-server', virtualServer: virtualServer(address(4, n), 80, 'TCP', settings) };
}

test('of more refused service ports than it remembers, those that were tried last are known', async () => {
  const refused: Attempt['refusal'] = {
    error: new KernelError('iptables', 'IPTABLES', 'refused'),
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
    },
    2,
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
