import { describe, expect, test } from '@jest/globals';
import { runOnPlan } from '../../scenario/plan-run.ts';
import { readScenarios } from '../../scenario/scenario-file.ts';

const only = process.env['TEST_SCENARIO'] ?? '';
const scenarios = readScenarios().filter(({ name }) => name.includes(only));

describe('scenarios, on manifests, model, plan and reconciler', () => {
  test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))('%s', async (_name, scenario) => {
    const demands = scenario.steps.some((step) => step.tables.size > 0 || step.probes.length > 0);
    expect(demands).toBe(true);
    expect((await runOnPlan(scenario)).join('\n')).toBe('');
  });
});
