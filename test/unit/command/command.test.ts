import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, test } from '@jest/globals';
import { load } from 'js-yaml';
import { runCommand } from '../../../src/command/command.ts';
import type { DifferenceReply, PlanReply } from '../../../src/explain/replies.ts';

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

describe('a question that cannot be asked is one sentence and a 2', () => {
  test.each([
    [
      ['nonsense'],
      /^kube-ipvs-proxy: unknown subcommand "nonsense": want one of [a-z, ]+, or flags, which begin with "--"$/,
    ],
    [[''], /^kube-ipvs-proxy: unknown subcommand ""/],
    [['toString'], /^kube-ipvs-proxy: unknown subcommand "toString"/],
    [['diff', '--nope'], /^kube-ipvs-proxy: Unknown option '--nope'$/],
    [['diff', '-o', 'xml'], /^kube-ipvs-proxy: --output: want text, json, yaml, got "xml"$/],
    [['diff', '--query-socket=/nonexistent'], /^kube-ipvs-proxy: no daemon listens at \/nonexistent: it does not run/],
    [['plan'], /^kube-ipvs-proxy: plan needs -f/],
    [['plan', '-f', '/nonexistent'], /^kube-ipvs-proxy: cannot read \/nonexistent: ENOENT/],
    [['plan', '-f', 'manifests/demo', '--', '--nope'], /^kube-ipvs-proxy: unknown flag --nope/],
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

test.each(['diff', 'plan'])('%s --help fits 100 columns', async (name) => {
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

describe('plan', () => {
  test('the manifests of the demo, on its node', async () => {
    const { code, out, err } = await run('plan', '-f', 'manifests/demo', '--node', 'node-0');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out.split('\n')[0]).toMatch(/^on node node-0: 2 Services, \d+ virtual servers, \d+ operations$/);
    expect(out).toContain('\n# default/echo\nipset add KUBE-CLUSTER-IP 10.202.0.53,udp:53\n');
    expect(out).toContain('\nipvsadm -a -t 10.202.0.10:80 -r 10.201.0.10:8080 -m -w 1\n');
  });

  test("the daemon's flags follow --", async () => {
    const { out } = await run('plan', '-f', 'manifests/demo/web.yaml', '--', '--ipvs-scheduler=mh');
    expect(out).toContain('ipvsadm -A -t 10.202.0.10:80 -s mh -b mh-fallback,mh-port\n');
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
    const { code, out } = await run('plan', '-f', file, '--node', 'node-a', '-o', 'json');
    const reply = JSON.parse(out) as PlanReply;
    expect(code).toBe(1);
    expect(reply.warnings).toEqual([
      'shop/web: external IP "127.0.0.1" is loopback, link-local, multicast or unspecified: ignored',
      'shop/web: TCP 10.96.0.1:80 belongs to shop/other',
    ]);
    expect(reply.verdict).toBe(
      'on node node-a (not in the manifests, so without a zone and NodePort addresses): ' +
        '2 Services, 1 virtual servers, 6 operations, 2 warnings',
    );
  });
});
