import { describe, expect, test } from '@jest/globals';
import { parseCidr } from '../../../src/base/cidr.ts';
import type { OtherRule, PacketReply } from '../../../src/explain/replies.ts';
import { parseWithPolicies } from '../../../src/kernel/iptables/chain-policies.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { listed, service, slice } from '../../support/objects.ts';
import { questionsOf } from '../../support/questions.ts';
import { PLAN_CONFIG, Reconciling } from '../../support/reconciling.ts';
import { address } from '../../support/state.ts';

const CIDR = parseCidr('10.244.0.0/16')!;

interface World {
  /** Lines of iptables-save, without COMMIT. */
  readonly saved?: string;
  readonly baseChains?: readonly string[];
  readonly marks?: readonly number[];
  readonly unforwarded?: readonly string[];
}

/** A client outside connects to the cluster IP, and is masqueraded. */
async function ask(
  { saved = '', baseChains = [], marks = [], unforwarded = [] }: World,
  from = '192.168.9.77',
): Promise<PacketReply> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const node = { address: address('192.168.9.1'), prefix: 24, interfaceName: 'eth0', tentative: false };
  const bridge = { address: address('10.244.0.1'), prefix: 24, interfaceName: 'cni0', tentative: false };
  kernel.setNodeAddresses([node, bridge]);
  const run = new Reconciling(kernel, {
    plan: { ...PLAN_CONFIG, localDetectors: { 4: { kind: 'cidr', cidr: CIDR } } },
  });
  await run.take(...listed([service('web', '10.96.0.10')], [slice('web', ['10.244.0.5', '10.244.0.6'])]));
  for (const name of unforwarded) kernel.unforwarded.add(name);
  kernel.otherRules = { variant: 'nft', tables: parseWithPolicies(saved), baseChains, marks };
  const { ask: question } = questionsOf(kernel, run);
  return (await question(`/v1/packet?from=${from}&at=10.96.0.10:80`)) as PacketReply;
}

const FILTER = '*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n';

/** "matches: filter INPUT drops" */
function words({ matches, table, chain, effect }: OtherRule): string {
  return `${matches ? 'matches' : 'may match'}: ${table} ${chain} ${effect}`;
}

describe('a packet to a Service', () => {
  test('without rules of others: what was looked at is said', async () => {
    const reply = await ask({ baseChains: ['table inet fw, chain in (hook input, priority 0)'] });
    expect(reply).toMatchObject({ ok: true, result: 'arrives', otherRules: [] });
    expect(reply.otherChains).toEqual(['table inet fw, chain in (hook input, priority 0)']);
    expect(reply.lookedAt).toContain('rules of iptables (nft)');
  });

  test.each<[name: string, saved: string, result: PacketReply['result'], found: readonly string[]]>([
    [
      'a rule that drops it',
      `${FILTER}-A INPUT -s 192.168.9.0/24 -p tcp -m tcp --dport 80 -j DROP`,
      'dropped',
      ['matches: filter INPUT drops'],
    ],
    ['a rule for another client', `${FILTER}-A INPUT -s 192.168.8.0/24 -j DROP`, 'arrives', []],
    ['a rule for another port', `${FILTER}-A INPUT -p tcp -m multiport --dports 443,8000:9000 -j DROP`, 'arrives', []],
    ['a rule for all ports but this', `${FILTER}-A INPUT -p tcp -m tcp ! --dport 80 -j DROP`, 'arrives', []],
    ['a policy', '*filter\n:INPUT DROP [0:0]', 'dropped', ['matches: filter INPUT drops']],
    [
      'a policy after a rule that accepts',
      '*filter\n:INPUT DROP [0:0]\n-A INPUT -s 192.168.9.77/32 -j ACCEPT',
      'arrives',
      [],
    ],
    [
      'a rule that cannot be decided',
      `${FILTER}-A INPUT -m set --match-set bad src -j DROP`,
      'arrives',
      ['may match: filter INPUT drops'],
    ],
    ['a rule for tracked connections', `${FILTER}-A INPUT -m conntrack --ctstate INVALID -j DROP`, 'arrives', []],
    [
      'raw: no tracking',
      '*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j CT --notrack',
      'arrives',
      ['matches: raw PREROUTING does not track'],
    ],
    [
      'nat: another destination',
      '*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -d 10.96.0.10/32 -j DNAT --to-destination 192.0.2.1',
      'not served',
      ['matches: nat PREROUTING redirects'],
    ],
    [
      'a chain of its own',
      `${FILTER}:FW - [0:0]\n-A INPUT -i eth0 -j FW\n-A FW -p udp -j RETURN\n-A FW -j REJECT --reject-with icmp-port-unreachable`,
      'refused',
      ['matches: filter FW refuses'],
    ],
    [
      'a chain that returns',
      `${FILTER}:FW - [0:0]\n-A INPUT -j FW\n-A FW -p tcp -j RETURN\n-A FW -j DROP`,
      'arrives',
      [],
    ],
    [
      'a chain that may be entered',
      `${FILTER}:FW - [0:0]\n-A INPUT -m limit --limit 1/sec -j FW\n-A FW -j DROP\n-A FW -j REJECT`,
      'arrives',
      ['may match: filter FW drops'],
    ],
    [
      'the way to all endpoints',
      `${FILTER}-A OUTPUT -d 10.244.0.0/24 -j DROP`,
      'dropped',
      ['matches: filter OUTPUT drops'],
    ],
    [
      'the way to one endpoint',
      `${FILTER}-A OUTPUT -d 10.244.0.5/32 -p tcp -m tcp --dport 8080 -j DROP`,
      'arrives',
      ['may match: filter OUTPUT drops'],
    ],
    [
      'our own mark',
      `${FILTER}-A INPUT -m mark --mark 0x4000/0x4000 -j DROP`,
      'dropped',
      ['matches: filter INPUT drops'],
    ],
    ['the mark of the kubelet', `${FILTER}-A INPUT -m mark --mark 0x8000/0x8000 -j DROP`, 'arrives', []],
    [
      'a mark that another rule may set',
      `*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j MARK --set-xmark 0x8000/0x8000\n${FILTER}-A INPUT -m mark --mark 0x8000/0x8000 -j DROP`,
      'arrives',
      ['may match: filter INPUT drops'],
    ],
    [
      'our own chains are not others',
      '*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n-A KUBE-SERVICES -j DROP',
      'arrives',
      [],
    ],
  ])('%s', async (_name, saved, result, found) => {
    const reply = await ask({ saved });
    expect([reply.result, reply.otherRules.map(words)]).toEqual([result, found]);
    expect(reply.ok).toBe(result === 'arrives');
  });

  test('the first rule that stops it is in the verdict, and later ones are not listed', async () => {
    const saved = `*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -s 192.168.9.77/32 -j DROP\n${FILTER}-A INPUT -j DROP`;
    const { verdict, otherRules } = await ask({ saved });
    expect(verdict).toBe(
      '192.168.9.77 -> 10.96.0.10:80/TCP is dropped by a rule of another program in raw PREROUTING: -s 192.168.9.77/32 -j DROP',
    );
    expect(otherRules).toHaveLength(1);
  });

  test('a rule that may match is in the verdict', async () => {
    const { verdict } = await ask({ saved: `${FILTER}-A INPUT -m limit --limit 1/sec -j DROP` });
    expect(verdict).toMatch(/ reaches one of 2 endpoints, .*; 1 rule of other programs may match \(below\)$/);
  });

  test('an interface that does not forward stops replies', async () => {
    const off = { unforwarded: ['cni0'] };
    expect(await ask(off)).toMatchObject({ ok: false, result: 'no answer' });
    expect(await ask(off, '192.168.9.1')).toMatchObject({ ok: true });
    const stopped = await ask(off, '10.244.0.7');
    expect(stopped).toMatchObject({ ok: false, result: 'no answer' });
    expect(stopped.verdict).toContain('replies that arrive on cni0 are not forwarded');
    expect(await ask({ unforwarded: ['eth0'] }, '10.244.0.7')).toMatchObject({ ok: true });
  });

  test('a virtual server for a firewall mark takes packets with this mark first', async () => {
    expect(await ask({ marks: [7] })).toMatchObject({ ok: true });
    // Clients outside are masqueraded, by our mark.
    const taken = await ask({ marks: [0x4000] });
    expect(taken).toMatchObject({ ok: false, result: 'not served' });
    expect(taken.verdict).toMatch(
      /is taken by a virtual server of another program for firewall mark 16384 \(ipvsadm -f 16384\)$/,
    );
    expect(await ask({ marks: [0x4000] }, '10.244.0.7')).toMatchObject({ ok: true });
    const saved = '*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -j MARK --set-xmark 0x7/0xffffffff';
    const unknown = await ask({ saved, marks: [7] });
    expect(unknown.notes.at(-1)).toBe(
      'a rule of another program may set a firewall mark, and virtual servers of IPVS for marks 7 take such packets first',
    );
  });

  test('chains that jump to each other many times are walked in time', async () => {
    const chains = Array.from({ length: 60 }, (_, at) => `C${at}`);
    const rules = chains.flatMap((name, at) => [`-A ${name} -m x -j C${at + 1}`, `-A ${name} -j C${at + 1}`]);
    const declared = [...chains, 'C60'].map((name) => `:${name} - [0:0]`);
    const saved = [FILTER.trim(), ...declared, '-A INPUT -j C0', ...rules, '-A C60 -j DROP'].join('\n');
    expect(await ask({ saved })).toMatchObject({ result: 'dropped' });
  });
});
