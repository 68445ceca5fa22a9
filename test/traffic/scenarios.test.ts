import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { PacketRun } from '../scenario/packet-run.ts';
import { type Scenario, readScenarios } from '../scenario/scenario-file.ts';

jest.setTimeout(120_000);

const only = process.env['TEST_SCENARIO'] ?? '';
// Scenarios with the same configuration are grouped, so that one daemon serves them all.
const scenarios = readScenarios()
  .filter(({ name, steps }) => name.includes(only) && steps.some(({ probes }) => probes.length > 0))
  .sort((a, b) => configuration(a).localeCompare(configuration(b)) || a.name.localeCompare(b.name));

function configuration({ flags, ownConfig }: Scenario): string {
  return [...flags, ownConfig].join(' ');
}

describe('scenarios, by packets', () => {
  let run: PacketRun;

  beforeAll(async () => {
    run = await PacketRun.create();
  });

  afterAll(async () => {
    await run[Symbol.asyncDispose]();
  });

  test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))('%s', async (_name, scenario) => {
    expect((await run.run(scenario)).join('\n')).toBe('');
  });
});
