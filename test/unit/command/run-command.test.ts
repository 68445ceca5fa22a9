import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, test } from '@jest/globals';
import { load } from 'js-yaml';
import { flagProgram } from '../../../src/cli/flag-program.ts';
import { runCommand } from '../../../src/command/program/run-command.ts';
import type { DifferenceReply, PacketReply, PlanReply, ServiceReply } from '../../../src/explain/replies.ts';

const folder = mkdtempSync(join(tmpdir(), 'command-'));
afterAll(() => rmSync(folder, { recursive: true }));

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

async function run(...argv: string[]): Promise<Ran> {
  const out: string[] = [];
  const err: string[] = [];
  const code = await runCommand(argv, { out: (line) => out.push(line), err: (line) => err.push(line) });
  return { code, out: out.join('\n'), err: err.join('\n') };
}

/** A daemon that gives this reply to every question, and keeps the paths. */
async function daemon(reply: object, status = 200): Promise<{ readonly socket: string; readonly asked: string[] }> {
  const socket = join(folder, `${Math.random()}.sock`);
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.writeHead(status).end(JSON.stringify(reply));
  });
  await once(server.listen(socket), 'listening');
  closers.push(() => server.close());
  return { socket, asked };
}

function needsDaemon(question: string): RegExp {
  return new RegExp(
    `^kube-ipvs-proxy: no daemon listens at /nonexistent, and ${question} needs it, because it alone knows the Services: ` +
      'start it, or give its --query-socket; status, top and explain IP:PORT do without a daemon$',
  );
}

describe('a question that cannot be asked is one sentence and a 2', () => {
  test.each([
    [['nonsense'], /^kube-ipvs-proxy: unknown command 'nonsense'; see kube-ipvs-proxy help$/],
    [['stat'], /^kube-ipvs-proxy: unknown command 'stat' \(Did you mean status\?\)/],
    [['toString'], /^kube-ipvs-proxy: unknown command 'toString'/],
    [['diff', '--nope'], /^kube-ipvs-proxy: unknown option '--nope'; see kube-ipvs-proxy help$/],
    [['status', '--outpt', 'json'], /: unknown option '--outpt' \(Did you mean --output\?\)/],
    [['diff', '-o', 'xml'], /argument 'xml' is invalid\. Want text, json, yaml;/],
    [
      ['status', '--query-socket='],
      /^kube-ipvs-proxy: option '--query-socket <path>' argument '' is invalid\. It is empty;/,
    ],
    [['explain', 'web', '-n'], /: option '-n, --namespace <name>' argument missing;/],
    [['explain', 'web', '--from', 'notanip'], /: --from: want an IP address, got "notanip"/],
    [['completion', 'tcsh'], /'tcsh' is invalid for argument 'shell'\. Allowed choices are bash, zsh, fish;/],
    [['diff', '--query-socket=/nonexistent'], needsDaemon('diff')],
    [['explain', 'web', '--query-socket=/nonexistent'], needsDaemon('explain SERVICE')],
    [['explain', 'web', '--from=10.0.0.1', '--query-socket=/nonexistent'], needsDaemon('explain --from')],
    [['explain'], /^kube-ipvs-proxy: explain needs one Service/],
    [['explain', 'a', 'b'], /^kube-ipvs-proxy: explain needs one Service/],
    [['explain', 'a', '--to', 'b', '--from', '10.0.0.1'], /^kube-ipvs-proxy: explain needs one Service/],
    [['status', 'web'], /^kube-ipvs-proxy: too many arguments for 'status'\. Expected 0 arguments but got 1: web;/],
    [['diff', '--', '--v=2'], /^kube-ipvs-proxy: diff takes no flags after "--"$/],
    [['plan', '-f', 'a.yaml', 'b.yaml'], /^kube-ipvs-proxy: too many arguments for 'plan'\. .*: b\.yaml;/],
    [['plan', '-f', 'a.yaml', '-f', 'b.yaml'], /argument 'b\.yaml' is invalid\. It is given twice;/],
    [['plan'], /^kube-ipvs-proxy: plan needs -f/],
    [['plan', '-f', '/nonexistent'], /^kube-ipvs-proxy: cannot read \/nonexistent: ENOENT/],
    [['plan', '-f', 'manifests/demo', '--', '--nope'], /^kube-ipvs-proxy: unknown option '--nope'; see --help/],
    [['plan', '-f', 'manifests/demo', '--', '-o', 'json'], /options of plan precede it/],
    [['plan', '-f', 'manifests/demo', '--', '--help'], /see kube-ipvs-proxy --help$/],
    [['plan', '-f', 'Makefile'], /^kube-ipvs-proxy: Makefile:3:17 is not valid YAML: /],
    [
      ['plan', '-f', 'manifests/demo', '--', '--oom-score-adj=5000'],
      /^kube-ipvs-proxy: .*oomScoreAdj: 5000 is out of range/,
    ],
  ])('%j', async (argv, sentence) => {
    const { code, out, err } = await run(...argv);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(sentence);
    expect(err.split('\n')).toHaveLength(1);
  });

  test('a manifest that is not valid is named with its line', async () => {
    const file = join(folder, 'broken.yaml');
    writeFileSync(file, 'a: b\nc: [');
    expect((await run('plan', '-f', file)).err).toMatch(`kube-ipvs-proxy: ${file}:2:`);
  });

  test('what the daemon cannot answer', async () => {
    const { socket } = await daemon({ kind: 'Error', message: 'the daemon has not completed its first sync' }, 503);
    expect(await run('diff', '--query-socket', socket)).toEqual({
      code: 2,
      out: '',
      err: 'kube-ipvs-proxy: the daemon has not completed its first sync',
    });
  });
});

test('svc/web is the Service web, as in kubectl', async () => {
  const { socket, asked } = await daemon({ ok: true, verdict: '', notes: [], refused: [], ports: [], sets: [] });
  for (const target of ['svc/web', 'service/web', 'services/web', 'web', 'default/web'])
    expect((await run('explain', target, '--query-socket', socket)).code).toBe(0);
  expect(new Set(asked)).toEqual(new Set(['/v1/service?namespace=default&name=web']));
});

test('an address alone is a question about all of its ports', async () => {
  const { socket, asked } = await daemon({ ok: true, verdict: '' });
  await run('explain', '10.96.0.10', '--query-socket', socket);
  await run('explain', 'fd00::1', '--query-socket', socket);
  expect(asked).toEqual(['/v1/address?at=10.96.0.10', '/v1/address?at=fd00%3A%3A1']);
});

test('the script of bash completes subcommands, options and flags', async () => {
  const script = join(folder, 'completion.bash');
  writeFileSync(script, (await run('completion', 'bash')).out);
  const complete = (...words: string[]): string[] => {
    const text = `. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kube_ipvs_proxy; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = spawnSync('bash', ['-c', text, 'bash', script, 'kube-ipvs-proxy', ...words], {
      encoding: 'utf8',
    });
    return stdout.trim().split('\n');
  };
  expect(complete('sta')).toEqual(['status']);
  expect(complete('top', '--na')).toEqual(['--namespace']);
  expect(complete('fleet', 'sta')).toEqual(['status']);
  expect(complete('fleet', 'status', '--para')).toEqual(['--parallel']);
  expect(complete('--ipvs-sched')).toEqual(['--ipvs-scheduler']);
  expect(complete('--v=2', '--proxy-m')).toEqual(['--proxy-mode']);
});

test('a reader that has read enough is no error', () => {
  const script = '"$0" --disable-warning=ExperimentalWarning src/main.ts completion bash | true';
  expect(spawnSync('sh', ['-c', script, process.execPath], { encoding: 'utf8' })).toMatchObject({ stderr: '' });
});

test('--help of the daemon names every subcommand, and only those', async () => {
  const [, words = ''] = /^ *1:\*\) words="(.*)"/m.exec((await run('completion', 'bash')).out) ?? [];
  const [, usage = ''] = /kube-ipvs-proxy (\S+) --help$/m.exec(flagProgram().helpInformation()) ?? [];
  expect(usage.split('|')).toEqual(words.split(' '));
});

test('the scripts of zsh and fish have the same words', async () => {
  expect((await run('completion', 'zsh')).out).toContain('bashcompinit');
  const { out } = await run('completion', 'fish');
  expect(out).toContain("complete -c kube-ipvs-proxy -n '__fish_seen_subcommand_from top' -l namespace");
  expect(out).toContain('-n __fish_use_subcommand -a explain');
});

test('version and help are subcommands, too', async () => {
  expect((await run('version')).out).toMatch(/^kube-ipvs-proxy v/);
  expect((await run('help')).out).toMatch(/^Usage: kube-ipvs-proxy SUBCOMMAND/);
  expect((await run('help', 'top')).out).toMatch(/^Usage: kube-ipvs-proxy top/);
});

test.each(['explain', 'top', 'diff', 'plan'])('%s --help fits 100 columns', async (name) => {
  const { code, out, err } = await run(name, '--help');
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out).toMatch(new RegExp(`^Usage: kube-ipvs-proxy ${name}`));
  expect(out.split('\n').filter((line) => line.length > 100)).toEqual([]);
});

describe('diff', () => {
  const DIFFERENCE: DifferenceReply = {
    apiVersion: 'kube-ipvs-proxy/v1',
    kind: 'Difference',
    node: 'node-a',
    ok: false,
    verdict: 'the kernel differs from the plan in 5 objects; the next full check repairs it',
    syncing: false,
    operations: [
      { do: 'add-virtual-server', command: 'ipvsadm -A -t 10.96.0.10:80 -s rr', service: 'shop/web' },
      { do: 'write-setting', command: 'sysctl -w net.ipv4.ip_forward=1' },
      { do: 'bind-address', command: 'ip addr add 10.96.0.10/32 dev kube-ipvs0', service: 'shop/web' },
    ],
    more: 2,
    notes: [],
  };

  test('the commands by Service, those of the node first', async () => {
    const { socket, asked } = await daemon(DIFFERENCE);
    expect(await run('diff', '--query-socket', socket)).toEqual({
      code: 1,
      err: '',
      out: [
        'the kernel differs from the plan in 5 objects; the next full check repairs it',
        '',
        '# the node',
        'sysctl -w net.ipv4.ip_forward=1',
        '',
        '# shop/web',
        'ipvsadm -A -t 10.96.0.10:80 -s rr',
        'ip addr add 10.96.0.10/32 dev kube-ipvs0',
        '',
        'and 2 more',
      ].join('\n'),
    });
    expect(asked).toEqual(['/v1/diff']);
  });

  test('a dry run lists known differences last, by name', async () => {
    const shadow = { unexpected: 1, known: { 'rule-text': 1, 'loop-back': 1 } } as const;
    const [unexpected] = DIFFERENCE.operations;
    const { socket } = await daemon({
      ...DIFFERENCE,
      verdict: 'the verdict',
      operations: [
        { do: 'write-rule', command: 'iptables -t nat -N KUBE-SERVICES', known: 'rule-text' },
        unexpected,
        { do: 'delete-entry', command: 'ipset del KUBE-LOOP-BACK x', service: 'shop/web', known: 'loop-back' },
      ],
      more: 0,
      shadow,
    });
    expect((await run('diff', '--query-socket', socket)).out.split('\n')).toEqual([
      'the verdict',
      '',
      '# shop/web',
      'ipvsadm -A -t 10.96.0.10:80 -s rr',
      '',
      '# known: loop-back',
      'ipset del KUBE-LOOP-BACK x',
      '',
      '# known: rule-text',
      'iptables -t nat -N KUBE-SERVICES',
    ]);
  });

  test('no difference is a 0; JSON and YAML are the reply', async () => {
    const same = { ...DIFFERENCE, ok: true, verdict: 'the kernel is as planned', operations: [], more: 0 };
    const { socket } = await daemon(same);
    expect(await run('diff', '--query-socket', socket)).toEqual({ code: 0, out: 'the kernel is as planned', err: '' });
    const json = await run('diff', '--query-socket', socket, '-o', 'json');
    expect({ ...json, out: JSON.parse(json.out) as unknown }).toEqual({ code: 0, out: same, err: '' });
    const yaml = await run('diff', '--query-socket', socket, '-o', 'yaml');
    expect(load(yaml.out)).toEqual(same);
  });
});

describe('explain', () => {
  const SERVICE: ServiceReply = {
    apiVersion: 'kube-ipvs-proxy/v1',
    kind: 'Service',
    node: 'node-a',
    ok: false,
    verdict:
      'shop/web answers on this node in part: no port of slice web-x7k matches the port "http" of the Service: it has "web"',
    service: 'shop/web',
    settings: {
      scheduler: 'mh',
      flags: ['mh-fallback', 'mh-port'],
      internalTrafficPolicy: 'Local',
      externalTrafficPolicy: 'Cluster',
      affinitySeconds: 600,
    },
    notes: ['TCP 10.96.0.10:80 belongs to shop/other'],
    refused: [
      {
        command: 'ipvsadm -A -t [fd00:200::10]:30080 -s rr',
        why: 'ENOENT: Scheduler module ip_vs_rr not found',
        attempts: 2,
      },
    ],
    changedAt: '2026-11-21T12:16:40.000Z',
    repairs: [{ at: '2026-11-21T12:20:00.000Z', command: 'ipvsadm -A -t 10.96.0.10:80 -s rr' }],
    sets: [
      {
        set: 'KUBE-CLUSTER-IP',
        does: 'all clients are masqueraded',
        count: 22,
        first: ['10.96.0.10,tcp:80', '10.96.0.10,tcp:81'],
        commands: ['ipset add KUBE-CLUSTER-IP 10.96.0.10,tcp:81'],
      },
    ],
    ports: [
      {
        name: 'http',
        protocol: 'TCP',
        port: 80,
        addresses: [
          {
            use: 'ClusterIP',
            at: '10.96.0.10:80',
            endpoints: 0,
            state: 'belongs to another Service',
            owner: 'shop/other',
            commands: [],
          },
          {
            use: 'NodePort',
            at: '[fd00:200::10]:30080',
            endpoints: 1,
            state: 'differs',
            commands: ['ipvsadm -A -t [fd00:200::10]:30080 -s rr'],
          },
        ],
        notes: ['hints ignored: our Node has no zone label'],
        counters: [
          {
            at: '[fd00:200::10]:30080',
            connections: 12_345,
            incomingPackets: 1_000_000,
            outgoingPackets: 9,
            incomingBytes: 64,
            outgoingBytes: 0,
          },
        ],
        udpFlows: 1,
        endpoints: [
          {
            slice: 'web-abcde',
            at: '10.244.0.5:8080',
            use: 'all',
            weight: 1,
            activeConnections: 12,
            inactiveConnections: 3,
          },
          {
            slice: 'web-abcde',
            at: '10.244.0.6:8080',
            use: 'internal',
            why: 'not on this node (externalTrafficPolicy: Local)',
          },
          { slice: 'web-x7k', at: '10.244.0.77', use: 'none', why: 'not ready' },
        ],
      },
    ],
  };

  test('a Service, aligned and within 100 columns', async () => {
    const { socket, asked } = await daemon(SERVICE);
    expect(await run('explain', 'web', '-n', 'shop', '--query-socket', socket)).toEqual({
      code: 1,
      err: '',
      out: [
        'shop/web answers on this node in part: no port of slice web-x7k matches the port "http" of the',
        'Service: it has "web"',
        '',
        'scheduler mh mh-fallback mh-port, internalTrafficPolicy Local, externalTrafficPolicy Cluster,',
        'session affinity for 600 s',
        'note: TCP 10.96.0.10:80 belongs to shop/other',
        'refused by the kernel, and tried again: ipvsadm -A -t [fd00:200::10]:30080 -s rr: ENOENT: Scheduler',
        'module ip_vs_rr not found (2 attempts)',
        'last change: 2026-11-21T12:16:40.000Z',
        'repaired 2026-11-21T12:20:00.000Z: ipvsadm -A -t 10.96.0.10:80 -s rr',
        '',
        'port http 80/TCP',
        '  ClusterIP  10.96.0.10:80         0 endpoints  belongs to shop/other',
        '  NodePort   [fd00:200::10]:30080  1 endpoint   differs',
        '    ipvsadm -A -t [fd00:200::10]:30080 -s rr',
        '  note: hints ignored: our Node has no zone label',
        '  web-abcde  10.244.0.5:8080  weight 1, 12 active, 3 inactive  used',
        '  web-abcde  10.244.0.6:8080  -                                used at the cluster IP only: not on',
        '                                                               this node (externalTrafficPolicy:',
        '                                                               Local)',
        '  web-x7k    10.244.0.77      -                                not used: not ready',
        '  counters              connections  pkt in    out  bytes in    out',
        '  [fd00:200::10]:30080          12k    1.0M      9        64      0',
        '  conntrack has 1 UDP flow to it',
        '',
        'entries of sets',
        '  KUBE-CLUSTER-IP: all clients are masqueraded',
        '    10.96.0.10,tcp:80 10.96.0.10,tcp:81 and 20 more',
        '    ipset add KUBE-CLUSTER-IP 10.96.0.10,tcp:81',
      ].join('\n'),
    });
    await run('explain', 'shop/web', '--query-socket', socket);
    await run('explain', 'web', '--query-socket', socket);
    expect(asked).toEqual([
      '/v1/service?namespace=shop&name=web',
      '/v1/service?namespace=shop&name=web',
      '/v1/service?namespace=default&name=web',
    ]);
  });

  test('settings of the Service and of the operator; unprintable characters cannot reach the terminal', async () => {
    const hostile = 'a\u001b[2J\u009b1m\u202e\nb';
    const annotations = [
      { name: 'scheduler', value: hostile, inForce: false },
      { name: hostile, value: 'x', inForce: false },
      { name: 'scheduler', value: 'wrr', from: 'serviceDefaults[0]', inForce: true },
    ];
    const { socket } = await daemon({ ...SERVICE, annotations, notes: [] });
    const { out } = await run('explain', 'web', '--query-socket', socket);
    expect(out.split('\n').filter((line) => line.includes(': scheduler ') || line.includes('"x"'))).toEqual([
      String.raw`asked: scheduler "a\u001b[2J\u009b1m\u202e\nb": not in force`,
      String.raw`asked: a\u001b[2J\u009b1m\u202e\u000ab "x": not in force`,
      'set by serviceDefaults[0]: scheduler "wrr": in force',
    ]);
  });

  test('an address and port', async () => {
    const reply = { kind: 'Address', ok: true, verdict: '[fd00::1]:80/TCP is the ClusterIP of shop/web', matches: [] };
    const { socket, asked } = await daemon(reply);
    expect(await run('explain', '[fd00::1]:80', '--query-socket', socket)).toEqual({
      code: 0,
      out: reply.verdict,
      err: '',
    });
    expect(asked).toEqual(['/v1/address?at=%5Bfd00%3A%3A1%5D%3A80']);
  });
});

describe('explain --from', () => {
  const PACKET: PacketReply = {
    apiVersion: 'kube-ipvs-proxy/v1',
    kind: 'Packet',
    node: 'node-a',
    ok: true,
    verdict: '192.168.9.77 -> 10.96.0.10:80/TCP reaches one of 2 endpoints, which see 10.244.0.1 (1 of them)',
    from: '192.168.9.77',
    origin: 'outside',
    source: '192.168.9.77',
    to: '10.96.0.10:80',
    protocol: 'TCP',
    service: 'shop/web',
    use: 'ClusterIP',
    result: 'arrives',
    steps: [
      {
        hook: 'PREROUTING',
        table: 'nat',
        chain: 'KUBE-SERVICES',
        rule: '-m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT',
        entries: ['KUBE-CLUSTER-IP 10.96.0.10,tcp:80'],
        packets: 12,
      },
      { hook: 'INPUT', table: 'ipvs', rule: 'virtual server 10.96.0.10:80/TCP of shop/web', entries: [] },
    ],
    endpoints: [
      { at: '10.244.0.5:8080', sees: '10.244.0.1', masqueraded: true, answers: true },
      { at: '10.244.1.5:8080', sees: '192.168.9.77', masqueraded: false, answers: false },
    ],
    otherRules: [
      {
        hook: 'INPUT',
        table: 'filter',
        chain: 'INPUT',
        rule: '-s 192.168.9.0/24 -j DROP',
        effect: 'drops',
        matches: true,
      },
      { hook: 'INPUT', table: 'filter', chain: 'CNI', rule: '-m x -j REJECT', effect: 'refuses', matches: false },
    ],
    otherChains: ['table inet firewall, chain input (hook input, priority 0, policy drop)'],
    lookedAt: 'of other programs: rules of iptables',
    notes: ['a note'],
    commands: ['ip addr add 10.96.0.10/32 dev kube-ipvs0'],
  };

  test('the verdict, the rules in order, and the endpoints', async () => {
    const { socket } = await daemon(PACKET);
    expect(await run('explain', 'web', '--from', '192.168.9.77', '--query-socket', socket)).toEqual({
      code: 0,
      err: '',
      out: [
        '192.168.9.77 -> 10.96.0.10:80/TCP reaches one of 2 endpoints, which see 10.244.0.1 (1 of them)',
        '',
        'from a client outside to the ClusterIP of shop/web',
        'note: a note',
        '',
        'way',
        '  nat PREROUTING  KUBE-SERVICES  12 packets  -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT',
        '                                             [KUBE-CLUSTER-IP 10.96.0.10,tcp:80]',
        '  ipvs INPUT                                 virtual server 10.96.0.10:80/TCP of shop/web',
        '',
        'endpoints',
        '  10.244.0.5:8080  sees 10.244.0.1    masqueraded',
        '  10.244.1.5:8080  sees 192.168.9.77  kept, cannot answer',
        '',
        'rules of other programs',
        '  filter INPUT       drops               -s 192.168.9.0/24 -j DROP',
        '  filter INPUT  CNI  may match: refuses  -m x -j REJECT',
        '',
        'chains of nf_tables of other programs, not looked into',
        '  table inet firewall, chain input (hook input, priority 0, policy drop)',
        '',
        'commands that bring the kernel to the plan',
        '  ip addr add 10.96.0.10/32 dev kube-ipvs0',
        '',
        'looked at of other programs: rules of iptables',
      ].join('\n'),
    });
  });

  test('a packet that does not arrive is a 1; the target is an argument or --to; JSON is the reply', async () => {
    const { socket, asked } = await daemon({ ...PACKET, ok: false });
    const from = ['--from', '10.244.0.7', '--query-socket', socket];
    expect((await run('explain', 'web', '-n', 'shop', ...from)).code).toBe(1);
    await run('explain', 'shop/web', ...from);
    await run('explain', '--to', '10.96.0.10:80/UDP', ...from);
    const { out } = await run('explain', '10.96.0.10:80', '-o', 'json', ...from);
    expect(JSON.parse(out)).toEqual({ ...PACKET, ok: false });
    expect(asked).toEqual([
      '/v1/packet?from=10.244.0.7&namespace=shop&name=web',
      '/v1/packet?from=10.244.0.7&namespace=shop&name=web',
      '/v1/packet?from=10.244.0.7&at=10.96.0.10%3A80%2FUDP',
      '/v1/packet?from=10.244.0.7&at=10.96.0.10%3A80',
    ]);
  });
});

describe('plan', () => {
  test('the manifests of the demo, on its node', async () => {
    const { code, out, err } = await run('plan', '-f', 'manifests/demo', '--node', 'node-0');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out.split('\n')[0]).toMatch(/^on node node-0: 2 Services, \d+ virtual servers, \d+ operations$/);
    expect(out).toContain('\n# default/echo\nipset add KUBE-CLUSTER-IP 10.202.0.53,udp:53\n');
    expect(out).toContain('\nipvsadm -a -t 10.202.0.10:80 -r 10.201.0.10:8080 -m -w 1\n');
  });

  test('the manifests of standard input', () => {
    const input = readFileSync('manifests/demo/web.yaml');
    const argv = ['--disable-warning=ExperimentalWarning', 'src/main.ts', 'plan', '-f', '-', '--node', 'node-0'];
    const { status, stdout } = spawnSync(process.execPath, argv, { input, encoding: 'utf8' });
    expect({ status, stdout }).toMatchObject({ status: 0, stdout: expect.stringMatching(/^on node node-0 /) });
    expect(stdout).toContain('\n# default/web\n');
  });

  test("the daemon's flags follow --", async () => {
    const { out } = await run('plan', '-f', 'manifests/demo/web.yaml', '--', '--ipvs-scheduler=mh');
    expect(out).toContain('ipvsadm -A -t 10.202.0.10:80 -s mh -b mh-fallback,mh-port\n');
  });

  test('in nftables mode, the elements of its tables', async () => {
    const { code, out } = await run('plan', '-f', 'manifests/demo', '--node', 'node-0', '--', '--proxy-mode=nftables');
    expect(code).toBe(0);
    expect(out.split('\n')[0]).toMatch(/^on node node-0: 2 Services, \d+ service ports, \d+ operations$/);
    expect(out).toContain("\n# default/echo\nnft -f - <<'END'\n");
    expect(out).toContain('\nadd element ip kube-proxy cluster-ip-ports { 10.202.0.53 . udp . 53 }\n');
    expect(out).toContain('\nadd rule ip kube-proxy services jump masquerade-check\n');
    expect(out).not.toMatch(/ipset|ipvsadm|ip addr/);
  });

  test('in iptables mode, the rules of its chains', async () => {
    const { code, out } = await run('plan', '-f', 'manifests/demo', '--node', 'node-0', '--', '--proxy-mode=iptables');
    expect(code).toBe(0);
    expect(out).toContain("\n# default/echo\niptables-restore --noflush --wait=20 <<'END'\n*nat\n");
    expect(out).toContain('\n-I KUBE-SERVICES -d 10.202.0.53/32 -p udp ');
  });

  test('a configuration file with defaults of the operator', async () => {
    const config = join(folder, 'config.yaml');
    writeFileSync(
      config,
      `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
---
apiVersion: kube-ipvs-proxy/v1alpha1
kind: KubeIPVSProxyConfiguration
serviceDefaults: [{ selector: {}, annotations: { scheduler: sed } }]
`,
    );
    const { out } = await run('plan', '-f', 'manifests/demo/web.yaml', '--', `--config=${config}`);
    expect(out).toContain('ipvsadm -A -t 10.202.0.10:80 -s sed\n');
  });

  test('a Service without a clusterIP has a placeholder, which stays while other Services come and go', async () => {
    const file = join(folder, 'placeholders.yaml');
    const service = (name: string, families: string): string =>
      `{apiVersion: v1, kind: Service, metadata: {name: ${name}}, spec: {ipFamilies: [${families}], ports: [{port: 80}]}}\n`;
    writeFileSync(file, [service('web', ''), service('dual', 'IPv6, IPv4')].join('---\n'));
    const { code, out } = await run('plan', '-f', file, '--node', 'node-a');
    expect(code).toBe(0);
    const [, web = ''] =
      /^note: default\/web has no clusterIP: planned with (198\.18\.\d+\.\d+) in place/m.exec(out) ?? [];
    expect(out).toContain(`\n# default/web\nipset add KUBE-CLUSTER-IP ${web},tcp:80\n`);
    expect(out).toMatch(
      /^note: default\/dual has no clusterIP: planned with 2001:db8::[0-9a-f]+ and 198\.18\.\d+\.\d+ in/m,
    );
    expect(out).toMatch(/\nipvsadm -A -t \[2001:db8::[0-9a-f]+\]:80 /);
    writeFileSync(file, service('web', ''));
    const alone = JSON.parse((await run('plan', '-f', file, '--node', 'node-a', '-o=json')).out) as PlanReply;
    expect(alone).toMatchObject({ ok: true, notes: [expect.stringContaining(` ${web} `)] });
  });

  test('two Services have different placeholders, whatever their names', async () => {
    const file = join(folder, 'many.yaml');
    const services = Array.from(
      { length: 2_000 },
      (_, at) => `{apiVersion: v1, kind: Service, metadata: {name: s${at}}}`,
    );
    writeFileSync(file, services.join('\n---\n'));
    const { notes } = JSON.parse((await run('plan', '-f', file, '-o=json')).out) as PlanReply;
    expect(new Set(notes.map((note) => / with (\S+) /.exec(note)?.[1])).size).toBe(2_000);
  });

  test('a warning about an object is a 1', async () => {
    const file = join(folder, 'web.yaml');
    writeFileSync(
      file,
      `apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec: { clusterIP: 10.96.0.1, externalIPs: [127.0.0.1], ports: [{ port: 80 }] }
---
apiVersion: v1
kind: Service
metadata: { name: other, namespace: shop }
spec: { clusterIP: 10.96.0.1, ports: [{ port: 80 }] }
`,
    );
    const { code, out } = await run('plan', '-f', file, '--node', 'node-a', '-o=json');
    const reply = JSON.parse(out) as PlanReply;
    expect(code).toBe(1);
    expect(reply.warnings).toEqual([
      'shop/web: external IP "127.0.0.1" is loopback, link-local, multicast or unspecified: ignored',
      'shop/web: TCP 10.96.0.1:80 belongs to shop/other',
    ]);
    expect(reply.verdict).toBe(
      'on node node-a (not in the manifests, so without a zone and NodePort addresses): ' +
        '2 Services, 1 virtual server, 6 operations, 2 warnings',
    );
  });
});
