import { expect, test } from '@jest/globals';
import { parseCidr } from '../../../../src/base/cidr.ts';
import type { IpFamily } from '../../../../src/base/ip.ts';
import { ConfirmedRules } from '../../../../src/kernel/iptables/confirmed-rules.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import type { RuleSet } from '../../../../src/state/rules/rule-set.ts';
import { PLAN_CONFIG } from '../../../support/reconciling.ts';

function rulesOf(family: IpFamily, podCidr: string): RuleSet {
  const cidr = parseCidr(podCidr);
  if (cidr === undefined) throw new Error(podCidr);
  return planRules({ ...PLAN_CONFIG, localDetectors: { [family]: { kind: 'cidr', cidr } } }, family);
}

test.each([
  [4, '10.244.0.0/16', '10.245.0.0/16'],
  [6, 'fd00:244::/48', 'fd00:245::/48'],
] as const)('IPv%d: rules are in force until the generation, they or ten minutes pass', (family, podCidr, another) => {
  let now = 0;
  const confirmed = new ConfirmedRules(() => now);
  const rules = rulesOf(family, podCidr);
  expect(confirmed.stillHold(rules, 7)).toBe(false);
  confirmed.note(rules, 7);
  expect(confirmed.stillHold(rulesOf(family, podCidr), 7)).toBe(true);
  expect(confirmed.stillHold(rulesOf(family, another), 7)).toBe(false);
  expect(confirmed.stillHold(rules, 8)).toBe(false);
  now = 10 * 60_000;
  expect(confirmed.stillHold(rules, 7)).toBe(false);
});

test('rules without a generation are never known to be in force', () => {
  const confirmed = new ConfirmedRules();
  const rules = rulesOf(4, '10.244.0.0/16');
  confirmed.note(rules, undefined);
  expect(confirmed.stillHold(rules, undefined)).toBe(false);
});
