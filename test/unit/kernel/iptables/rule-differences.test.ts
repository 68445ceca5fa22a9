import { describe, expect, test } from '@jest/globals';
import { parseCidr } from '../../../../src/base/cidr.ts';
import { parseSave } from '../../../../src/kernel/iptables/iptables-save.ts';
import { ruleDifferences } from '../../../../src/kernel/iptables/rule-differences.ts';
import { repairScript } from '../../../../src/kernel/iptables/rule-set-script.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import { PLAN_CONFIG } from '../../../support/reconciling.ts';

const CONFIG = { ...PLAN_CONFIG, localDetectors: { 4: { kind: 'cidr', cidr: parseCidr('10.244.0.0/16')! } } } as const;
const RULES = planRules(CONFIG, 4);

/** What iptables-save prints where kube-proxy runs in ipvs mode with a load balancer and source ranges. */
const KUBE_PROXY = `*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-NODE-PORT -p tcp -m comment --comment "Kubernetes nodeport TCP port for masquerade purpose" -m set --match-set KUBE-NODE-PORT-TCP dst -j KUBE-MARK-MASQ
-A KUBE-POSTROUTING -m comment --comment "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose" -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
-A KUBE-SERVICES -m comment --comment "Kubernetes service lb portal" -m set --match-set KUBE-LOAD-BALANCER dst,dst -j KUBE-LOAD-BALANCER
-A KUBE-SERVICES ! -s 10.244.0.0/16 -m comment --comment "Kubernetes service cluster ip + port for masquerade purpose" -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
-A KUBE-SERVICES -m set --match-set KUBE-LOAD-BALANCER dst,dst -j ACCEPT
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-IPVS-FILTER - [0:0]
:KUBE-IPVS-OUT-FILTER - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SOURCE-RANGES-FIREWALL - [0:0]
-A INPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER
-A INPUT -m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check rules" -j KUBE-NODE-PORT
-A FORWARD -m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A OUTPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-OUT-FILTER
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-IPVS-FILTER -m set --match-set KUBE-CLUSTER-IP dst,dst -j RETURN
-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-IPVS-IPS dst -j REJECT --reject-with icmp-port-unreachable
-A KUBE-IPVS-OUT-FILTER -s 10.203.0.10/32 -m ipvs --vaddr 10.203.0.10 --vproto 6 --vport 80 -j DROP
-A KUBE-NODE-PORT -m comment --comment "Kubernetes health check node port" -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j ACCEPT
-A KUBE-PROXY-FIREWALL -m comment --comment "Kubernetes service load balancer ip + port for load balancer with sourceRange" -m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j KUBE-SOURCE-RANGES-FIREWALL
-A KUBE-SOURCE-RANGES-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN
-A KUBE-SOURCE-RANGES-FIREWALL -j DROP
COMMIT
`;

function found(saved: string, rules = RULES) {
  const tables = parseSave(saved);
  return ruleDifferences(rules, tables, repairScript(rules, tables));
}

function unexpected(saved: string, rules = RULES): readonly string[] {
  return found(saved, rules)
    .filter(({ known }) => known === undefined)
    .map(({ command }) => command);
}

test('rules as wanted are no difference', () => {
  expect(ruleDifferences(RULES, new Map(), '')).toEqual([]);
});

test('kube-proxy explains its own rules, and the chains that it does not have', () => {
  expect(unexpected(KUBE_PROXY)).toEqual([]);
  expect(found(KUBE_PROXY)).toContainEqual({ command: 'iptables -t nat -F KUBE-SERVICES', known: 'rule-text' });
  expect(found(KUBE_PROXY)).toContainEqual({
    command: 'iptables -t filter -N KUBE-IPVS-ACCEPT',
    known: 'additional-rules',
  });
});

describe('what kube-proxy does not explain', () => {
  const inServices = (rule: string): string =>
    KUBE_PROXY.replace('-A KUBE-SERVICES -s', `-A KUBE-SERVICES ${rule}\n-A KUBE-SERVICES -s`);

  test.each([
    '-s 192.0.2.1/32 -j ACCEPT',
    '-j ACCEPT',
    '-m set --match-set blocklist src -j RETURN',
    '! -s 10.245.0.0/16 -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ',
  ])('a foreign rule in our chain: %s', (rule) => {
    expect(unexpected(inServices(rule))).toEqual([`iptables -t nat -D KUBE-SERVICES ${rule}`]);
  });

  test('another mark', () => {
    const marked = KUBE_PROXY.replace('--set-xmark 0x4000/0x4000', '--set-xmark 0x8000/0x8000');
    expect(unexpected(marked)).toEqual(['iptables -t nat -D KUBE-MARK-MASQ -j MARK --set-xmark 0x8000/0x8000']);
  });

  test('an empty chain and a missing one', () => {
    const empty = KUBE_PROXY.split('\n').filter((line) => !line.startsWith('-A KUBE-SERVICES'));
    expect(unexpected(empty.join('\n'))).toContain('iptables -t nat -F KUBE-SERVICES');
    const missing = empty.filter((line) => !line.startsWith(':KUBE-SERVICES'));
    expect(unexpected(missing.join('\n'))).toContain('iptables -t nat -N KUBE-SERVICES');
  });

  test('a missing jump', () => {
    const lines = KUBE_PROXY.split('\n').filter((line) => !line.startsWith('-A PREROUTING'));
    expect(unexpected(lines.join('\n'))).toEqual([
      'iptables -t nat -I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    ]);
  });
});

test('releases that drop in KUBE-FIREWALL, and iptables without --random-fully', () => {
  const older = KUBE_PROXY.replaceAll(' --random-fully', '').replace(
    '-A KUBE-LOAD-BALANCER',
    '-A KUBE-LOAD-BALANCER -m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j KUBE-FIREWALL\n-A KUBE-LOAD-BALANCER',
  );
  expect(unexpected(older)).toEqual([]);
});
