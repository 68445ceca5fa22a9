import { describe, expect, test } from '@jest/globals';
import { formatIp } from '../../../src/base/ip.ts';
import { namespacedName } from '../../../src/base/service/names.ts';
import { NodePlan, type PlanChanges } from '../../../src/plan/node/node-plan.ts';
import { addressTraits } from '../../../src/state/address-traits.ts';
import type { ServicePlan } from '../../../src/plan/service-plan.ts';
import { formatIpSetEntry } from '../../../src/state/ip-set.ts';
import { formatRealServer } from '../../../src/state/real-server.ts';
import { formatVirtualServer } from '../../../src/state/virtual-server.ts';
import { planOf } from './build.ts';
import { address, real, virtualServer, vsId } from '../../support/state.ts';

const A = namespacedName('default', 'a');
const B = namespacedName('default', 'b');

/** A plan for one virtual server on 203.0.113.1, with an address and a set entry of the same. */
function plan(service: typeof A, servers: readonly string[], port = 80): ServicePlan {
  const vs = virtualServer('203.0.113.1', port);
  return {
    service,
    virtualServers: [
      {
        virtualServer: vs,
        realServers: servers.map((text) => real(text, 1)),
        traits: addressTraits('external', false),
        portName: '',
      },
    ],
    addresses: [vs.address],
    closed: [],
    hairpins: [],
    entries: [{ role: 'IPVS-IPS', family: 4, entry: { type: 'hash:ip', address: vs.address } }],
    udp: [],
    noLocalEndpoints: { internal: [], external: [] },
    warnings: [],
  };
}

function words({ virtualServers, addresses, entries }: PlanChanges): string[] {
  return [
    ...virtualServers.map(({ id, wanted }) => {
      const servers = wanted?.realServers.map(formatRealServer).join(' ') ?? 'gone';
      return `${formatVirtualServer(id)}: ${servers}`;
    }),
    ...addresses.map((change) => `${change.wanted ? '+' : '-'} ${formatIp(change.address)}`),
    ...entries.map((change) => `${change.wanted ? '+' : '-'} ${change.role} ${formatIpSetEntry(change.entry)}`),
  ];
}

describe('NodePlan', () => {
  test('the node plan follows a Service that is added, changed and deleted', () => {
    const node = new NodePlan();
    node.replace(A, plan(A, ['10.244.0.1']));
    expect(words(node.takeChanges())).toEqual([
      'TCP 203.0.113.1:80: 10.244.0.1:8080',
      '+ 203.0.113.1',
      '+ IPVS-IPS 203.0.113.1',
    ]);
    node.replace(A, plan(A, ['10.244.0.1', '10.244.0.2']));
    expect(words(node.takeChanges())).toEqual(['TCP 203.0.113.1:80: 10.244.0.1:8080 10.244.0.2:8080']);
    node.replace(A, undefined);
    expect(words(node.takeChanges())).toEqual(['TCP 203.0.113.1:80: gone', '- 203.0.113.1', '- IPVS-IPS 203.0.113.1']);
    expect([node.virtualServerCount, node.addressCount]).toEqual([0, 0]);
  });

  test('an equal plan, and addresses that are added and removed again, cause no change', () => {
    const node = new NodePlan();
    const same = plan(A, ['10.244.0.1']);
    node.replace(A, same);
    node.takeChanges();
    node.replace(A, same);
    expect(words(node.takeChanges())).toEqual([]);
    node.replace(A, plan(A, []));
    node.replace(A, undefined);
    node.replace(A, same);
    expect(words(node.takeChanges())).toEqual([]);
  });

  test('an object that two Services require stays until both are deleted', () => {
    const node = new NodePlan();
    node.replace(A, plan(A, [], 80));
    node.replace(B, plan(B, [], 81));
    node.takeChanges();
    node.replace(A, undefined);
    expect(words(node.takeChanges())).toEqual(['TCP 203.0.113.1:80: gone']);
    node.replace(B, undefined);
    expect(words(node.takeChanges())).toContain('- 203.0.113.1');
  });

  test('of two claims on one virtual server the first by name wins, in any order of arrival', () => {
    const node = new NodePlan();
    node.replace(B, plan(B, ['10.244.0.2']));
    node.takeChanges();
    node.replace(A, plan(A, ['10.244.0.1']));
    expect(words(node.takeChanges())).toEqual(['TCP 203.0.113.1:80: 10.244.0.1:8080']);
    expect(node.conflictsOf(B)).toEqual([
      { service: B, owner: A, kind: 'virtual-server', claimed: 'TCP 203.0.113.1:80' },
    ]);
    node.replace(A, undefined);
    expect(words(node.takeChanges())).toEqual(['TCP 203.0.113.1:80: 10.244.0.2:8080']);
    expect(node.conflictsOf(B)).toEqual([]);
  });

  test('a node port that another Service has in one family keeps no set entry of that family', () => {
    const node = new NodePlan();
    const ports = [{ name: '', protocol: 'TCP', port: 80, nodePort: 30_080 }] as const;
    const both = {
      type: 'NodePort',
      ports,
      clusterIPs: ['10.96.0.1', 'fd00::1'],
      externalTrafficPolicy: 'Local',
    } as const;
    node.replace(A, { ...planOf({ service: { type: 'NodePort', ports, clusterIPs: ['10.96.0.2'] } }), service: A });
    node.replace(B, { ...planOf({ service: both }), service: B });
    expect([...node.entries('NODE-PORT-LOCAL-TCP', 6).values()]).toHaveLength(1);
    expect([...node.entries('NODE-PORT-LOCAL-TCP', 4).values()]).toEqual([]);
  });

  test('a touched virtual server is reported although its plan is unchanged', () => {
    const node = new NodePlan();
    node.replace(A, plan(A, ['10.244.0.1']));
    node.takeChanges();
    node.touchVirtualServer(vsId('203.0.113.1', 80));
    node.touchVirtualServer(vsId('203.0.113.9', 80));
    node.touchAddress(address('203.0.113.9'));
    expect(words(node.takeChanges())).toEqual([
      'TCP 203.0.113.1:80: 10.244.0.1:8080',
      'TCP 203.0.113.9:80: gone',
      '- 203.0.113.9',
    ]);
    expect(words(node.takeChanges())).toEqual([]);
  });
});
