import { beforeEach, expect, test } from '@jest/globals';
import { sharedRules } from '../../../../src/daemon/questions/shared-rules.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { PLAN_CONFIG } from '../../../support/reconciling.ts';

const RULES = planRules(PLAN_CONFIG, 4);

let kernel: FakeKernel;
let compare: ReturnType<typeof sharedRules>;

beforeEach(() => {
  kernel = new FakeKernel();
  compare = sharedRules(kernel);
});

test('questions that waited for the same comparison share it', async () => {
  const askedAt = performance.now() - 10;
  const found = await compare(RULES, askedAt);
  expect(await compare(RULES, askedAt + 5)).toBe(found);
  expect(kernel.calls.get('compareRules')).toBe(1);
});

test('a question that was asked after a comparison began gets one of its own', async () => {
  const before = await compare(RULES, performance.now() - 10);
  expect(await compare(RULES, performance.now())).not.toBe(before);
  expect(kernel.calls.get('compareRules')).toBe(2);
});

test('the families are compared separately', async () => {
  const askedAt = performance.now() - 10;
  await compare(RULES, askedAt);
  const six = planRules(PLAN_CONFIG, 6);
  expect(await compare(six, askedAt)).not.toBe(await compare(RULES, askedAt));
  expect(kernel.calls.get('compareRules')).toBe(2);
});
