import { describe, expect, test } from '@jest/globals';
import { formatIp, parseIp } from '../../../src/base/ip.ts';
import { nodePortSelection } from '../../../src/config/value/node-port-selection.ts';
import { nodeIps } from '../../../src/model/node.ts';
import { healthCheckAddresses } from '../../../src/plan/service/health-check.ts';
import { nodePortAddresses, nodePortProblem, selectsLocalnet } from '../../../src/plan/node-port-addresses.ts';
import type { NodeView } from '../../../src/plan/plan-config.ts';
import { config, ip, nodeView } from './build.ts';

const NONE: Partial<NodeView> = { nodeIps: [], reportedAddresses: [] };
const ONLY_4: Partial<NodeView> = { nodeIps: [ip('192.168.0.10')], reportedAddresses: [ip('192.168.0.10')] };

function selected(entries: readonly string[], node: Partial<NodeView> = {}) {
  const view = nodeView(node);
  const plan = config({ nodePortAddresses: nodePortSelection(entries) });
  const texts = (addresses: readonly ReturnType<typeof ip>[]): string => addresses.map(formatIp).join(' ');
  const checks = healthCheckAddresses(view, plan);
  const ofChecks = ([4, 6] as const).map((family) => {
    const found = checks[family] ?? [];
    return found === 'all' ? 'all' : texts(found);
  });
  return {
    nodePorts: ([4, 6] as const).map((family) => texts(nodePortAddresses(family, view, plan))),
    healthChecks: ofChecks,
    isProblem: nodePortProblem(view, plan) !== undefined,
  };
}

test.each([
  [[], true],
  [['all'], true],
  [['localhost'], true],
  [['primary', '127.0.0.1/32'], true],
  [['primary'], false],
  [['::1/128', '10.0.0.0/8'], false],
] as const)('nodePortAddresses %j selects 127.0.0.1: %s', (entries, expected) => {
  expect(selectsLocalnet(nodePortSelection(entries))).toBe(expected);
});

describe('the addresses that nodePortAddresses selects', () => {
  const ALL = ['10.244.0.1 192.168.0.10', 'fd00:10::a'];
  const OWN = ['192.168.0.10', 'fd00:10::a'];

  test.each<
    [
      what: string,
      entries: readonly string[],
      node: Partial<NodeView>,
      nodePorts: readonly string[],
      healthChecks: readonly string[],
      isProblem?: boolean,
    ]
  >([
    ['nothing listed', [], {}, ALL, ['all', 'all']],
    ['nothing listed, and a Node without addresses', [], NONE, ALL, ['all', 'all']],
    ['all', ['all'], {}, ALL, ['all', 'all']],
    ['one network leaves the other family open', ['10.244.0.0/16'], {}, ['10.244.0.1', ALL[1]!], ['10.244.0.1', 'all']],
    ['primary', ['primary'], {}, OWN, OWN],
    ['primary of a Node without addresses', ['primary'], NONE, ['', ''], ['', ''], true],
    [
      'primary and a network, without addresses',
      ['primary', '10.0.0.0/8'],
      NONE,
      ['10.244.0.1', ''],
      ['10.244.0.1', ''],
      true,
    ],
    ['primary and all, without addresses', ['primary', 'all'], NONE, ALL, ['all', 'all']],
    ['primary of a Node with an IPv4 address only', ['primary'], ONLY_4, [OWN[0]!, ''], [OWN[0]!, '']],
    ['localhost, where only health checks are served', ['localhost'], {}, ['', ''], ['127.0.0.1', '::1']],
    ['primary and localhost', ['primary', 'localhost'], {}, OWN, ['127.0.0.1 192.168.0.10', '::1 fd00:10::a']],
    ['an address that no interface has', ['192.0.2.1/32', '2001:db8::/64'], {}, ['', ''], ['', '']],
  ])('%s', (_what, entries, node, nodePorts, healthChecks, isProblem = false) => {
    expect(selected(entries, node)).toEqual({ nodePorts, healthChecks, isProblem });
  });

  test('--bind-address replaces the primary address of its family, unless it is a loopback address', () => {
    const reported = nodeView().reportedAddresses;
    const primary = (bind: string) => selected(['primary'], { nodeIps: nodeIps(reported, parseIp(bind)) }).nodePorts;
    expect(primary('10.244.0.1')).toEqual(['10.244.0.1', 'fd00:10::a']);
    expect(primary('127.0.0.1')).toEqual(OWN);
  });
});
