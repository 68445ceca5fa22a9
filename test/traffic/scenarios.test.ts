import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { PacketRun } from '../scenario/packet-run.ts';
import { TEST_MODE } from '../support/mode.ts';
import { type Scenario, readScenarios } from '../scenario/scenario-file.ts';

jest.setTimeout(120_000);

/** Selects scenarios by a part of their names; "/" selects all. */
const only = process.env['TEST_SCENARIO'];

// Scenarios with the same configuration are grouped, so that one daemon serves them all.
const scenarios = readScenarios()
  .filter(({ steps }) => steps.some(({ probes }) => probes.length > 0))
  .filter(only === undefined ? isForMode : ({ name }) => name.includes(only))
  .sort((a, b) => configuration(a).localeCompare(configuration(b)) || a.name.localeCompare(b.name));

/**
 * In iptables and userspace mode, the first of each folder and those that say something of the mode: what the rules do to the
 * packets of all is traced in memory. TEST_SCENARIO=/ selects all.
 */
function isForMode({ name, steps }: Scenario, at: number, all: readonly Scenario[]): boolean {
  if (TEST_MODE !== 'iptables' && TEST_MODE !== 'userspace') return true;
  const saysSo = steps.some(
    ({ tablesOfModes, probesOfModes }) => tablesOfModes[TEST_MODE].size > 0 || probesOfModes[TEST_MODE] !== undefined,
  );
  return saysSo || path.dirname(name) !== path.dirname(all[at - 1]?.name ?? '');
}

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
