import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { PacketRun } from '../scenario/packet-run.ts';
import { TEST_MODE } from '../support/mode.ts';
import { type Scenario, readScenarios } from '../scenario/scenario-file.ts';

jest.setTimeout(120_000);

/** Scenarios that are of ipvs mode only, by the beginning of their names, with the reason. */
const ONLY_IN_IPVS_MODE: Readonly<Record<string, string>> = {
  'annotations/': 'Services cannot ask for settings of their own',
  'local-route/': 'no service address is bound, so no route replaces that',
  'affinity/scheduler-': 'endpoints are chosen at random',
  'security/unbound-address': 'an address is served without being bound',
  'security/load-balancer-probes-itself': 'no service address is bound, so none is a source of this node',
};

function isInMode(name: string): boolean {
  return TEST_MODE === 'ipvs' || !Object.keys(ONLY_IN_IPVS_MODE).some((start) => name.startsWith(start));
}

const only = process.env['TEST_SCENARIO'] ?? '';
// Scenarios with the same configuration are grouped, so that one daemon serves them all.
const scenarios = readScenarios()
  .filter(({ name, steps }) => name.includes(only) && steps.some(({ probes }) => probes.length > 0))
  .filter(({ name }) => isInMode(name))
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
