import { expect, test } from '@jest/globals';
import type { CommandRunner } from '../../../../src/kernel/command-runner.ts';
import { Iptables } from '../../../../src/kernel/iptables/iptables-handle.ts';
import { iptablesKernelOf } from '../../../../src/kernel/iptables-mode/iptables-kernel.ts';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import { MODE_PLANS } from '../../../../src/plan/mode-plans.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import { FakeIptables } from '../../../fake-kernel/fake-iptables.ts';
import { OF_KUBE_PROXY } from '../../../support/chains-of-kube-proxy.ts';
import { memoryUsed } from '../../../support/memory-used.ts';
import { PLAN_CONFIG, TestLog } from '../../../support/reconciling.ts';

/** Keeps none of the text. */
async function lengthOf(text: Promise<string>): Promise<number> {
  return (await text).length;
}

async function heapAndExternal(): Promise<number> {
  const { heapUsed, external } = await memoryUsed();
  return heapUsed + external;
}

test('the printed rules of other programs do not stay in memory', async () => {
  const programs = new FakeIptables();
  await programs.write(4, OF_KUBE_PROXY);
  const read = programs.read.bind(programs);
  let [printed, rules] = [0, 0];
  programs.read = async (family) => {
    const lines = Array.from({ length: rules }, (_, n) => `-A OTHER -s 10.0.${n >> 8}.${n & 255}/32 -j ACCEPT\n`);
    const saved = await read(family);
    // As bytes from a program, which is one string.
    const text = Buffer.from(saved.replace('*nat\n', `*nat\n:OTHER - [0:0]\n${lines.join('')}`)).toString();
    printed = Math.max(printed, text.length);
    return text;
  };
  const kernel = iptablesKernelOf(new NodeKernel({ log: new TestLog() }), programs, 0);
  const rulesOf = planRules({ ...PLAN_CONFIG, ...MODE_PLANS.iptables }, 4);
  await kernel.ensureRules(rulesOf);
  const before = await heapAndExternal();
  rules = 65_536;
  await kernel.compareRules(rulesOf);
  expect(printed).toBeGreaterThan(2_000_000);
  expect((await heapAndExternal()) - before).toBeLessThan(500_000);
  await kernel.close();
});

test('what was read to detect the variant does not stay in memory once the rules are read', async () => {
  const lines = Array.from({ length: 65_536 }, (_, n) => `-A OTHER -s 10.0.${n >> 8}.${n & 255}/32 -j ACCEPT\n`);
  const text = Buffer.from(`*nat\n:OTHER - [0:0]\n${lines.join('')}COMMIT\n*filter\nCOMMIT\n`);
  const runner: CommandRunner = {
    run: (program) => {
      const stdout = program.endsWith('nft-save') ? text.toString() : '';
      return Promise.resolve({ status: 0, stdout, stderr: '' });
    },
  };
  const iptables = new Iptables(runner, new TestLog(), () => undefined);
  const before = await heapAndExternal();
  expect(await iptables.variant()).toBe('nft');
  await lengthOf(iptables.read(4));
  expect((await heapAndExternal()) - before).toBeLessThan(500_000);
  expect(await iptables.variant()).toBe('nft');
});
