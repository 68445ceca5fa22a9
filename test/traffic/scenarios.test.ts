import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { PacketRun } from '../scenario/packet-run.ts';
import { TEST_MODE } from '../support/mode.ts';
import { type Scenario, readScenarios } from '../scenario/scenario-file.ts';

jest.setTimeout(120_000);

const NOT_IN_IPVS_MODE: Readonly<Record<string, string>> = {
  'security/hairpin-of-an-unknown-node': 'KUBE-LOOP-BACK has what it has with kube-proxy',
};

/** Scenarios that are of ipvs mode only, by the beginning of their names, with the reason. */
const ONLY_IN_IPVS_MODE: Readonly<Record<string, string>> = {
  'annotations/': 'Services cannot ask for settings of their own',
  'local-route/': 'no service address is bound, so no route replaces that',
  'affinity/scheduler-': 'endpoints are chosen at random',
  'security/unbound-address': 'an address is served without being bound',
  'security/load-balancer-probes-itself': 'no service address is bound, so none is a source of this node',
};

const ELSEWHERE = 'external and load balancer IPs may be addresses of other hosts: their other ports are not rejected';
const NOT_IN_NFTABLES_MODE: Readonly<Record<string, string>> = {
  ...ONLY_IN_IPVS_MODE,
  'external-ip/other-ports-are-closed': ELSEWHERE,
  'external-ip/shared-by-two-services': ELSEWHERE,
  'load-balancer/address-shared-by-two-services': ELSEWHERE,
};

const NOT_REJECTED = 'connections to a service address at a port without a service are not rejected, as in kube-proxy';
const NOT_IN_IPTABLES_MODE: Readonly<Record<string, string>> = {
  ...NOT_IN_NFTABLES_MODE,
  'bad-input/invalid-and-corrected': NOT_REJECTED,
  'cluster-ip/port-number-changes': NOT_REJECTED,
  'cluster-ip/several-ports': NOT_REJECTED,
  'node-port/not-on-service-addresses': NOT_REJECTED,
  'security/host-ports-closed-on-service-addresses': NOT_REJECTED,
};

const NOT_IN_MODE = { ipvs: NOT_IN_IPVS_MODE, nftables: NOT_IN_NFTABLES_MODE, iptables: NOT_IN_IPTABLES_MODE }[
  TEST_MODE
];

function isInMode(name: string): boolean {
  return !Object.keys(NOT_IN_MODE).some((start) => name.startsWith(start));
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
