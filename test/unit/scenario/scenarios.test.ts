import { beforeAll, describe, expect, jest, test } from '@jest/globals';
import { NOT_IN_MODE, ONLY_IN_IPVS_MODE } from '../../scenario/in-mode.ts';
import { plannedTables, runOnPlan } from '../../scenario/plan-run.ts';
import { readScenarios } from '../../scenario/scenario-file.ts';
import { difference } from '../../scenario/tables.ts';

const only = process.env['TEST_SCENARIO'] ?? '';
const scenarios = readScenarios().filter(({ name }) => name.includes(only));

const MODES = ['ipvs', 'nftables', 'iptables', 'userspace'] as const;

// A second after a change, nftables mode deletes what packets on their way may still have needed. That would look like a write of
// the explanation that runs then, so no time passes.
beforeAll(() => {
  const real = ['Date', 'hrtime', 'nextTick', 'performance', 'queueMicrotask', 'setImmediate', 'setInterval'] as const;
  jest.useFakeTimers({ doNotFake: [...real] });
});

describe.each(MODES)('scenarios, in memory, in %s mode', (mode) => {
  test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))('%s', async (_name, scenario) => {
    const demands = scenario.steps.some((step) => step.tables.size > 0 || step.probes.length > 0);
    expect(demands).toBe(true);
    expect((await runOnPlan(scenario, mode)).join('\n')).toBe('');
  });
});

describe('what scenarios state for ipvs mode only', () => {
  const steps = readScenarios().flatMap(({ name, steps: own }) => own.map((step) => ({ name, step })));

  test.each(['nftables', 'iptables'] as const)(
    'in %s mode, each part that the mode does not have is in a scenario',
    (mode) => {
      const used = new Set(steps.flatMap(({ step: { tables, givens } }) => [...tables.keys(), ...givens.keys()]));
      expect(Object.keys(NOT_IN_MODE[mode]).filter((part) => !used.has(part as never))).toEqual([]);
    },
  );

  test.each(Object.entries(ONLY_IN_IPVS_MODE))(
    'in %s, each table differs in the other modes',
    async (start, { tables }) => {
      const scenario = readScenarios().filter(({ name }) => name.startsWith(start));
      const found = await Promise.all(
        scenario.map(async (each) => [each, await plannedTables(each, 'nftables')] as const),
      );
      const differs = tables.filter((table) =>
        found.some(([{ steps: own }, planned]) =>
          own.some(
            ({ tables: wanted }, at) => difference(table, wanted.get(table) ?? [], planned[at] ?? {}) !== undefined,
          ),
        ),
      );
      expect(differs).toEqual(tables);
    },
  );
});
