import { describe, expect, test } from '@jest/globals';
import { parseCidr } from '../../../../../src/base/cidr.ts';
import {
  renderServicePort,
  type RenderContext,
} from '../../../../../src/kernel/iptables-mode/render/render-service-port.ts';
import type { ServedAddress, ServicePort } from '../../../../../src/kernel/iptables-mode/render/service-port.ts';
import type { RuleSettings } from '../../../../../src/state/rules/rule-settings.ts';
import { address, portOf } from '../../../../support/state.ts';

const SETTINGS: RuleSettings = { masqueradeAll: false, masqueradeMark: 0x4000, randomFully: true };
const CONTEXT: RenderContext = {
  settings: { ...SETTINGS, localDetector: { kind: 'cidr', cidr: parseCidr('10.244.0.0/16')! } },
  nodePortAddresses: [address('192.168.9.1'), address('192.168.9.2')],
  hasServiceRule: () => false,
};

const A = { address: address('10.244.0.1'), port: portOf(8080) };
const B = { address: address('10.244.1.1'), port: portOf(8080) };

const DEFAULTS = { affinity: 0, endpoints: [A, B] };

function served(kind: ServedAddress['kind'], at: string, change: Partial<ServedAddress> = {}): ServedAddress {
  const port = portOf(kind === 'nodePort' ? 30_080 : 80);
  const id = { address: address(at), protocol: 'TCP', port } as const;
  return { id, kind, keepsSource: kind === 'cluster', ...DEFAULTS, ...change };
}

function portWith(...addresses: readonly ServedAddress[]): ServicePort {
  return { family: 4, name: 'default/web:http', protocol: 'TCP', addresses };
}

/** Chains as in iptables-save; what is hashed in the names is left to the names. */
function lines(port: ServicePort, context: RenderContext = CONTEXT): string[] {
  const { chains, shared } = renderServicePort(port, context);
  return [
    ...chains.flatMap(({ table, name, rules }) => rules.map((rule) => `${table} ${name} ${rule}`)),
    ...shared.map(({ table, chain, rule }) => `${table} ${chain} ${rule}`),
  ];
}

const NAME = 'default/web:http';

/** With short names for the chains of the endpoints and of the service port. */
function short(texts: readonly string[]): string[] {
  const seps = [...new Set(texts.flatMap((text) => text.match(/KUBE-SEP-\w+/g) ?? []))];
  const hash = /KUBE-(?:SVC|EXT|FW)-(\w{16})/.exec(texts.join(' '))?.[1] ?? '';
  return texts.map((text) =>
    seps.reduce((all, sep, at) => all.replaceAll(sep, `SEP${at + 1}`), text).replaceAll(`-${hash}`, ''),
  );
}

describe('the chains of a service port', () => {
  test('a cluster IP with two endpoints', () => {
    expect(short(lines(portWith(served('cluster', '10.96.0.10'))))).toEqual([
      `nat KUBE-SVC ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m comment --comment "${NAME} cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ`,
      `nat KUBE-SVC -m comment --comment "${NAME} -> 10.244.0.1:8080" -m statistic --mode random --probability 0.50000000000 -j SEP1`,
      `nat KUBE-SVC -m comment --comment "${NAME} -> 10.244.1.1:8080" -j SEP2`,
      `nat SEP1 -s 10.244.0.1/32 -m comment --comment "${NAME}" -j KUBE-MARK-MASQ`,
      `nat SEP1 -p tcp -m comment --comment "${NAME}" -m tcp -j DNAT --to-destination 10.244.0.1:8080`,
      `nat SEP2 -s 10.244.1.1/32 -m comment --comment "${NAME}" -j KUBE-MARK-MASQ`,
      `nat SEP2 -p tcp -m comment --comment "${NAME}" -m tcp -j DNAT --to-destination 10.244.1.1:8080`,
      `nat KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "${NAME} cluster IP" -m tcp --dport 80 -j KUBE-SVC`,
    ]);
  });

  const CLUSTER_IP = `-d 10.96.0.10/32 -p tcp -m comment --comment "${NAME} cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ`;
  const REST = CLUSTER_IP.slice(CLUSTER_IP.indexOf('-p tcp'));
  test.each<readonly [string, Partial<RuleSettings>, string]>([
    ['masqueradeAll', { masqueradeAll: true }, CLUSTER_IP],
    ['no detector', { localDetector: undefined }, `-s 10.96.0.10/32 ${CLUSTER_IP}`],
    [
      'a bridge',
      { localDetector: { kind: 'bridge', interfaceName: 'br"0' } },
      `-d 10.96.0.10/32 ! -i "br\\"0" ${REST}`,
    ],
    [
      'interfaces',
      { localDetector: { kind: 'interface-prefix', prefix: 'veth' } },
      `-d 10.96.0.10/32 ! -i veth+ ${REST}`,
    ],
  ])('connections to a cluster IP are masqueraded with %s', (_name, change, rule) => {
    const context = { ...CONTEXT, settings: { ...SETTINGS, ...change } };
    expect(short(lines(portWith(served('cluster', '10.96.0.10')), context))[0]).toBe(`nat KUBE-SVC ${rule}`);
  });

  test('other addresses are masqueraded in a chain of their own, unless the source is kept', () => {
    const all = short(lines(portWith(served('cluster', '10.96.0.10'), served('external', '203.0.113.1'))));
    expect(all.filter((line) => line.includes('KUBE-EXT'))).toEqual([
      `nat KUBE-EXT -m comment --comment "masquerade traffic for ${NAME} external destinations" -j KUBE-MARK-MASQ`,
      'nat KUBE-EXT -j KUBE-SVC',
      `nat KUBE-SERVICES -d 203.0.113.1/32 -p tcp -m comment --comment "${NAME} external IP" -m tcp --dport 80 -j KUBE-EXT`,
    ]);
    const local = served('external', '203.0.113.1', { keepsSource: true, endpoints: [A] });
    expect(
      short(lines(portWith(served('cluster', '10.96.0.10'), local))).filter((line) => /EXT |SVL/.test(line)),
    ).toEqual([
      `nat KUBE-SVL -m comment --comment "${NAME} -> 10.244.0.1:8080" -j SEP1`,
      `nat KUBE-EXT -m comment --comment "masquerade LOCAL traffic for ${NAME} external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`,
      'nat KUBE-EXT -j KUBE-SVL',
    ]);
  });

  test('session affinity', () => {
    const all = short(lines(portWith(served('cluster', '10.96.0.10', { affinity: 60 }))));
    expect(all.slice(1, 5)).toEqual([
      `nat KUBE-SVC -m comment --comment "${NAME} -> 10.244.0.1:8080" -m recent --rcheck --seconds 60 --reap --name SEP1 --mask 255.255.255.255 --rsource -j SEP1`,
      `nat KUBE-SVC -m comment --comment "${NAME} -> 10.244.1.1:8080" -m recent --rcheck --seconds 60 --reap --name SEP2 --mask 255.255.255.255 --rsource -j SEP2`,
      `nat KUBE-SVC -m comment --comment "${NAME} -> 10.244.0.1:8080" -m statistic --mode random --probability 0.50000000000 -j SEP1`,
      `nat KUBE-SVC -m comment --comment "${NAME} -> 10.244.1.1:8080" -j SEP2`,
    ]);
    expect(all).toContain(
      `nat SEP1 -p tcp -m comment --comment "${NAME}" -m recent --set --name SEP1 --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.244.0.1:8080`,
    );
  });

  test('source ranges, with and without endpoints', () => {
    const admitted = { ranges: [parseCidr('10.0.0.0/8')!, parseCidr('192.0.2.7/32')!], itself: false };
    const all = short(lines(portWith(served('loadBalancer', '203.0.113.2', { admitted }))));
    expect(all.filter((line) => line.includes('KUBE-FW'))).toEqual([
      `nat KUBE-FW -s 10.0.0.0/8 -m comment --comment "${NAME} loadbalancer IP" -j KUBE-EXT`,
      `nat KUBE-FW -s 192.0.2.7/32 -m comment --comment "${NAME} loadbalancer IP" -j KUBE-EXT`,
      `nat KUBE-FW -m comment --comment "other traffic to ${NAME} will be dropped by KUBE-PROXY-FIREWALL"`,
      `nat KUBE-SERVICES -d 203.0.113.2/32 -p tcp -m comment --comment "${NAME} loadbalancer IP" -m tcp --dport 80 -j KUBE-FW`,
      `filter KUBE-PROXY-FIREWALL -d 203.0.113.2/32 -p tcp -m comment --comment "${NAME} traffic not accepted by KUBE-FW" -m tcp --dport 80 -j DROP`,
    ]);
    expect(short(lines(portWith(served('loadBalancer', '203.0.113.2', { admitted, endpoints: [] }))))).toEqual([
      'filter KUBE-FW -s 10.0.0.0/8 -j RETURN',
      'filter KUBE-FW -s 192.0.2.7/32 -j RETURN',
      'filter KUBE-FW -j DROP',
      `filter KUBE-PROXY-FIREWALL -d 203.0.113.2/32 -p tcp -m comment --comment "${NAME} loadbalancer IP" -m tcp --dport 80 -j KUBE-FW`,
      `filter KUBE-EXTERNAL-SERVICES -d 203.0.113.2/32 -p tcp -m comment --comment "${NAME} loadbalancer IP has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable`,
    ]);
  });

  test('a load balancer IP that the node has is admitted as source, if the node is', () => {
    const change = { admitted: { ranges: [parseCidr('10.0.0.0/8')!], itself: true } };
    const both = ['203.0.113.2', '203.0.113.3'].map((at) => served('loadBalancer', at, change));
    const rulesOf = (table: string, list: readonly ServedAddress[]): string[] =>
      short(lines(portWith(...list))).filter((line) => line.startsWith(`${table} KUBE-FW `));
    const itself = `-m comment --comment "${NAME} loadbalancer IP from itself"`;
    expect(rulesOf('nat', both)).toEqual([
      `nat KUBE-FW -s 10.0.0.0/8 -m comment --comment "${NAME} loadbalancer IP" -j KUBE-EXT`,
      `nat KUBE-FW -s 203.0.113.2/32 ${itself} -j KUBE-EXT`,
      `nat KUBE-FW -s 203.0.113.3/32 ${itself} -j KUBE-EXT`,
      `nat KUBE-FW -m comment --comment "other traffic to ${NAME} will be dropped by KUBE-PROXY-FIREWALL"`,
    ]);
    const none = both.slice(0, 1).map((each) => ({ ...each, endpoints: [] }));
    expect(rulesOf('filter', none)).toEqual([
      'filter KUBE-FW -s 10.0.0.0/8 -j RETURN',
      `filter KUBE-FW -s 203.0.113.2/32 ${itself} -j RETURN`,
      'filter KUBE-FW -j DROP',
    ]);
  });

  test('without endpoints, each address is rejected, and the rule says what else it has', () => {
    const none = { endpoints: [] };
    const rejected = lines(
      portWith(
        served('cluster', '10.96.0.10', none),
        served('address', '10.96.0.11', { ...none, keepsSource: true }),
        served('nodePort', '192.168.9.1', { ...none, keepsSource: true }),
      ),
    );
    expect(rejected).toEqual([
      `filter KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "${NAME} cluster IP has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable`,
      `filter KUBE-SERVICES -d 10.96.0.11/32 -p tcp -m comment --comment "${NAME} service address has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable`,
      `filter KUBE-EXTERNAL-SERVICES -d 192.168.9.1/32 -p tcp -m comment --comment "${NAME} node port (source kept) has no endpoints" -m tcp --dport 30080 -j REJECT --reject-with icmp-port-unreachable`,
    ]);
  });

  describe('node ports', () => {
    const both = [served('nodePort', '192.168.9.1'), served('nodePort', '192.168.9.2')];
    const generic = [`nat KUBE-NODEPORTS -p tcp -m comment --comment "${NAME}" -m tcp --dport 30080 -j KUBE-EXT`];
    const nodePorts = (addresses: readonly ServedAddress[], context = CONTEXT): string[] =>
      short(lines(portWith(...addresses), context)).filter((line) => line.startsWith('nat KUBE-NODEPORTS'));

    test('have one rule for all addresses', () => {
      expect(nodePorts(both)).toEqual(generic);
    });

    test('also where another service has one of the addresses and the port', () => {
      const hasServiceRule: RenderContext['hasServiceRule'] = (id) => id.address === address('192.168.9.2');
      expect(nodePorts(both.slice(0, 1), { ...CONTEXT, hasServiceRule })).toEqual(generic);
    });

    test('have a rule for each address if they differ, or are not at all addresses', () => {
      expect(nodePorts(both.slice(0, 1))).toEqual([
        `nat KUBE-NODEPORTS -d 192.168.9.1/32 -p tcp -m comment --comment "${NAME}" -m tcp --dport 30080 -j KUBE-EXT`,
      ]);
      expect(nodePorts([both[0]!, { ...both[1]!, keepsSource: true }])).toHaveLength(2);
    });
  });

  test('addresses with a third list of endpoints have chains that kube-proxy does not have', () => {
    const lists = [[A], [B], [A, B]];
    const all = lines(portWith(...lists.map((endpoints, at) => served('external', `203.0.113.${at}`, { endpoints }))));
    expect(new Set(all.flatMap((line) => line.match(/(?<=^nat )KUBE-SV[CL]-\w+/g) ?? [])).size).toBe(3);
    expect(new Set(all.flatMap((line) => line.match(/(?<=^nat )KUBE-EXT-\w+/g) ?? [])).size).toBe(3);
  });
});
