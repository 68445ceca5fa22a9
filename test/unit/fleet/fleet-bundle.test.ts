import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type Collected, bundleFiles, statusFile, packFiles } from '../../../src/fleet/bundle/bundle-files.ts';
import { redacted } from '../../../src/fleet/bundle/redact.ts';
import { mergeStatus } from '../../../src/fleet/facts/merge-status.ts';
import type { FleetBundleReply } from '../../../src/fleet/fleet-replies.ts';
import { statusOf } from '../../support/fleet-status.ts';
import { RecordedCluster, type RecordedPod } from '../../support/recorded-cluster.ts';
import { runFleet } from '../../support/run-fleet.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'bundle-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The secret itself is what must not be found; the text is what a file may have of it. */
const PLANTED: Readonly<Record<string, readonly [secret: string, text: string]>> = {
  'a key in PEM': [
    'MIIEpAIBAAKCAQEA0',
    '-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0\n-----END RSA PRIVATE KEY-----',
  ],
  'a key in PEM in JSON': [
    'MIIEpAIBAAKCAQEA1',
    String.raw`{"k": "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1\n-----END PRIVATE KEY-----\n"}`,
  ],
  'a key in PEM that a log cuts': ['MIIEpAIBAAKCAQEA2', '-----BEGIN EC PRIVATE KEY-----\nMIIEpAIBAAKCAQEA2'],
  'client-key-data of a kubeconfig': [
    'LS0tLS1CRUdJTiBSU0E',
    'client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo=',
  ],
  'a token of a kubeconfig': ['c2VjcmV0LXRva2Vu', 'users:\n- name: a\n  user:\n    token: c2VjcmV0LXRva2Vu'],
  'a token in JSON': ['hunter2-json', '{"token": "hunter2-json"}'],
  'a token in JSON in JSON': ['hunter2-nested', String.raw`{"log": "{\"token\":\"hunter2-nested\"}"}`],
  'a password of a kubeconfig': ['hunter2-yaml', '    password: "hunter2-yaml"'],
  'a password with spaces': ['horse battery', "password: 'correct horse battery staple'"],
  'a service account token': [
    'eyJhbGciOiJSUzI1NiJ9',
    'E1127 failed: eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl',
  ],
  'a header': ['abcdef123456', 'Authorization: Bearer abcdef123456'],
  'a basic header': ['dXNlcjpwYXNz', 'authorization="Basic dXNlcjpwYXNz"'],
  'the user of a URL': ['s3cr3t', 'master=https://admin:s3cr3t@10.0.0.1:6443'],
  'an environment variable': ['wJalrXUtnFEMI', 'AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG'],
  'an access key of AWS': ['AKIAIOSFODNN7EXAMPLE', 'key AKIAIOSFODNN7EXAMPLE'],
  'a bootstrap token': ['9876543210fedcba', 'joined with abcdef.9876543210fedcba'],
  'an item of a list': ['hunter2-item', '{"token": ["x", "hunter2-item"]}'],
  'a field of an object': ['hunter2-field', '{"secret": {"data": {"x": "hunter2-field"}}}'],
  'a list in JSON in JSON': ['hunter2-inner', String.raw`{"log": "{\"token\":[\"a]\", \"hunter2-inner\"]}"}`],
  'a password with a quote in JSON in JSON': [
    'hunter2-tail',
    String.raw`{"log": "{\"password\":\"a\\\"hunter2-tail\"}"}`,
  ],
  'a password that a log cuts': ['hunter2-cut', 'password: "hunter2-cut'],
  'a password of a URL with @': ['ss-of-proxy', 'http://u:p@ss-of-proxy@10.0.0.1:3128'],
  'an option': ['hunter2-option', 'kube-ipvs-proxy --token hunter2-option --v=2'],
  'an option in a list': ['hunter2-args', '["--token", "hunter2-args"]'],
  'an API key': ['k3y-of-the-api', 'api_key=k3y-of-the-api'],
  'a block of YAML': ['hunter2-block', 'user:\n  token: |\n    first\n\n    hunter2-block\n  name: a'],
  'a folded block of a list of YAML': ['hunter2-folded', '- "password": >2-\n    first\n    hunter2-folded\n- name: a'],
  'a block of YAML in JSON': [
    'hunter2-escaped',
    String.raw`{"file": "token: |-\n  first\n  hunter2-escaped\nname: a\n"}`,
  ],
  'a block of YAML in JSON in JSON': [
    'hunter2-twice',
    String.raw`{"log": "{\"file\": \"a:\\n- token: |\\n    first\\n    hunter2-twice\\n\"}"}`,
  ],
  'a block of YAML without an end': ['hunter2-last', 'token: |\n  hunter2-last'],
  'words of YAML without quotes': ['horse battery', 'user:\n  password: correct horse battery # staple\n  name: a'],
  'several lines of YAML without quotes': ['hunter2-third', 'password: one two\n  three hunter2-third\nname: a'],
  'words of YAML in JSON': ['horse battery', String.raw`{"file": "a: b\npassword: correct horse battery\n"}`],
  'a value below its name': ['hunter2-below', 'password:\n    correct hunter2-below\nname: a'],
};

describe('what is redacted', () => {
  test.each(Object.entries(PLANTED))('%s', (_what, [secret, text]) => {
    expect(text).toContain(secret);
    expect(redacted(text)).not.toContain(secret);
  });

  test.each([
    'tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token',
    'kubeconfig: /var/lib/kube-proxy/kubeconfig.conf',
    'https://10.0.0.1:6443/api/v1/services?watch=true',
    '-A KUBE-SERVICES -m comment --comment "shop/web" -j KUBE-MARK-MASQ',
    'kubeipvs_objects{type="service"} 12',
    'the bootstrap-token is a file',
    'TCP 10.96.0.1:443 -> 192.168.0.10:6443',
  ])('%s stays', (text) => {
    expect(redacted(text)).toBe(text);
  });
});

test.each([
  ['{"password":"x"}', '{"password":"[removed]"}'],
  ['{"token":["abc"],"a":1}', '{"token":"[removed]","a":1}'],
  ['{"a":{"token":7}}', '{"a":{"token":"[removed]"}}'],
  ['{"Authorization":"Bearer abcdefgh","b":[]}', '{"Authorization":"[removed]","b":[]}'],
  [String.raw`{"log":"{\"token\":\"a\\\"b\"}","c":1}`, String.raw`{"log":"{\"token\":\"[removed]\"}","c":1}`],
  [String.raw`{"f":"token: |\n  a\n  b\nname: a","c":1}`, String.raw`{"f":"token: [removed]\nname: a","c":1}`],
  [String.raw`{"f":"token: |\n  a","c":1}`, String.raw`{"f":"token: [removed]","c":1}`],
  [String.raw`{"f":"token: a b\n","c":1}`, String.raw`{"f":"token: [removed]\n","c":1}`],
  ['{\n  "token": null,\n  "c": 1\n}', '{\n  "token": "[removed]",\n  "c": 1\n}'],
  [String.raw`{"log":"token=\"cut","c":1}`, String.raw`{"log":"token=\"[removed]\"","c":1}`],
  ['{"flags":["--token","abc","-v"]}', '{"flags":["--token","[removed]","-v"]}'],
  ['{"url":"http://u:p@ss@proxy:1/a@b"}', '{"url":"http://[removed]@proxy:1/a@b"}'],
])('of %s, %s remains', (text, rest) => {
  expect(redacted(text)).toBe(rest);
  expect(() => JSON.parse(rest) as unknown).not.toThrow();
});

test.each([
  ['user:\n  token: |\n    a\n\n    b\n  name: c\n', 'user:\n  token: [removed]\n  name: c\n'],
  ['- token: >-\n    a\n  name: c\n', '- token: [removed]\n  name: c\n'],
  ['token: a b # c\nname: d\n', 'token: [removed]\nname: d\n'],
  ['token: a\n  b\n\nname: c\n', 'token: [removed]\n\nname: c\n'],
])('of the YAML %j, the rest remains', (text, rest) => {
  expect(redacted(text)).toBe(rest);
});

test('of two strings without an end, both are removed', () => {
  expect(redacted('password: "one\nok\npassword: "two\nok\n')).toBe('password: "[removed]"\nok\n');
});

test.each([
  ['', 'a-'],
  ['', 'a-a-secret'],
  ['', 'a.'],
  ['', '://a'],
  ['http://', 'a'],
  ['eyJ', 'eyJ-'],
  ['basic ', 'basic-'],
  ['', '-----BEGIN PRIVATE KEY-----\n'],
  ['-----BEGIN PRIVATE KEY-----\n', 'a'],
  ['', 'token=['],
  ['', 'token="'],
  ['token="', String.raw`token=\\"`],
  ['token=', 'a'],
  ['', '--token '],
  ['', '--a-token'],
  ['token', ' '],
  ['token', '\\'],
  ['token: |\n', '  a\n'],
  ['', 'token: a\n'],
  ['', 'token: |\n'],
  ['token: |\n  ', '\n'],
  ['', 'token: a '],
  ['', '- token: |'],
])('%j and 8 MB of %j take little time', (before, part) => {
  const text = before + part.repeat((8 * 1024 * 1024) / part.length);
  const { user } = process.cpuUsage();
  redacted(text);
  expect((process.cpuUsage().user - user) / 1e6).toBeLessThan(2);
});

function collectedOf(text: string): Collected {
  const status = mergeStatus([], [{ node: 'a', pod: 'p', why: text }], []);
  return {
    collector: text,
    versions: text,
    status,
    statusText: text,
    statuses: new Map([['a', statusFile({ text })]]),
    nodes: [{ node: 'a', files: new Map([['log.txt', text]]), missing: new Map([['diff.json', text]]) }],
  };
}

test.each(Object.entries(PLANTED))('no file of the archive has %s, wherever it was', (_what, [secret, text]) => {
  const files = [...bundleFiles(collectedOf(text)).values()];
  expect(files.length).toBe(6);
  expect(files.filter((file) => file.includes(secret))).toEqual([]);
});

describe('the archive', () => {
  test('the same texts give the same bytes, in whatever order they came', async () => {
    const texts = fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), fc.string(), { maxKeys: 6 });
    await fc.assert(
      fc.asyncProperty(texts, async (given) => {
        const entries = Object.entries(given);
        const [one, other] = await Promise.all([
          packFiles('f', new Map(entries)),
          packFiles('f', new Map(entries.toReversed())),
        ]);
        expect(one.equals(other)).toBe(true);
      }),
      { numRuns: 20 },
    );
  });

  test('names of nodes do not leave its folder', () => {
    const nodes = [{ node: '../../etc/x', files: new Map([['log.txt', '']]), missing: new Map<string, string>() }];
    const paths = [...bundleFiles({ ...collectedOf(''), nodes }).keys()];
    expect(paths.filter((each) => each.includes('..'))).toEqual([]);
  });
});

describe('fleet bundle', () => {
  const planted = Object.values(PLANTED).map(([, text]) => text);
  const answering = (node: string, changes = {}): RecordedPod => ({
    replies: {
      status: statusOf(node, changes),
      diff: { apiVersion: 'kube-ipvs-proxy/v1', kind: 'Difference', operations: [] },
      support: {
        apiVersion: 'kube-ipvs-proxy/v1',
        kind: 'Support',
        configuration: { planted },
        metrics: 'kubeipvs_objects 1\n',
      },
      logs: `I1127 started\n${planted.join('\n')}\n`,
      'iptables-nft-save': '*nat\nCOMMIT\n',
      'iptables-legacy-save': '*filter\nCOMMIT\n',
    },
    statuses: { 'logs--previous': 1 },
    errors: { 'logs--previous': 'Error from server (BadRequest): previous terminated container not found\n' },
  });
  const pods = new Map([
    ...Array.from({ length: 9 }, (_, at): [string, RecordedPod] => [`alike-${at}`, answering(`alike-${at}`)]),
    ['odd', answering('odd', { scheduler: 'rr' })],
    ['dead', { waits: 'CrashLoopBackOff', replies: { logs: 'E1127 out of memory\n' } }],
  ]);
  const unpack = (file: string): string => {
    const into = mkdtempSync(path.join(folder, 'out-'));
    execFileSync('tar', ['-xzf', file, '-C', into]);
    return path.join(into, 'kube-ipvs-proxy-bundle');
  };

  test('has all of the odd nodes and of one other, an index page, and nothing secret', async () => {
    using _ = new RecordedCluster(pods);
    const file = path.join(folder, 'a.tar.gz');
    const { code, out } = await runFleet('bundle', '-f', file, '-o', 'json');
    const { files, verdict } = JSON.parse(out) as FleetBundleReply;
    expect({ code, verdict }).toEqual({ code: 0, verdict: expect.stringContaining(`wrote ${file} (`) });
    expect(files).toEqual([
      'nodes/alike-0/diff.json',
      'nodes/alike-0/ip6tables-legacy-save.txt',
      'nodes/alike-0/ip6tables-nft-save.txt',
      'nodes/alike-0/iptables-legacy-save.txt',
      'nodes/alike-0/iptables-nft-save.txt',
      'nodes/alike-0/log.txt',
      'nodes/alike-0/support.json',
      'nodes/dead/diff.json',
      'nodes/dead/ip6tables-legacy-save.txt',
      'nodes/dead/ip6tables-nft-save.txt',
      'nodes/dead/iptables-legacy-save.txt',
      'nodes/dead/iptables-nft-save.txt',
      'nodes/dead/log-previous.txt',
      'nodes/dead/log.txt',
      'nodes/dead/support.json',
      'nodes/odd/diff.json',
      'nodes/odd/ip6tables-legacy-save.txt',
      'nodes/odd/ip6tables-nft-save.txt',
      'nodes/odd/iptables-legacy-save.txt',
      'nodes/odd/iptables-nft-save.txt',
      'nodes/odd/log.txt',
      'nodes/odd/support.json',
      'status.json',
      'status.txt',
      ...['alike-0', 'alike-1', 'alike-2', 'alike-3', 'alike-4', 'alike-5', 'alike-6', 'alike-7', 'alike-8', 'odd'].map(
        (node) => `status/${node}.json`,
      ),
      'versions.json',
      'index.md',
    ]);
    const root = unpack(file);
    const texts = files.map((each) => readFileSync(path.join(root, each), 'utf8'));
    const found = Object.values(PLANTED).filter(([secret]) => texts.some((text) => text.includes(secret)));
    expect(found).toEqual([]);
    expect(readFileSync(path.join(root, 'nodes/odd/log.txt'), 'utf8')).toContain('I1127 started');
    expect(readFileSync(path.join(root, 'nodes/odd/iptables-legacy-save.txt'), 'utf8')).toBe('*filter\nCOMMIT\n');
    const index = readFileSync(path.join(root, 'index.md'), 'utf8');
    expect(index).toContain('- log-previous.txt is missing: Error from server (BadRequest): previous terminated');
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test('a hostile node neither prevents the archive nor reaches the terminal of its reader', async () => {
    const hostile = { ...statusOf('hostile'), ok: false, verdict: 'x\u001B[2Jy\u009Bz\u202E' };
    using _ = new RecordedCluster(
      new Map<string, RecordedPod>([
        [
          'deep',
          {
            replies: {
              status: `{"apiVersion":"kube-ipvs-proxy/v1","kind":"Status","deep":${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
            },
          },
        ],
        ['hostile', { replies: { status: hostile } }],
        ['silent', { statuses: { status: 2 }, errors: { status: 'a\u001B[2Jb\n', diff: 'a\u001B[2Jb\n' } }],
      ]),
    );
    const file = path.join(folder, 'd.tar.gz');
    const { code, out } = await runFleet('bundle', '-f', file, '-o', 'json');
    const { files, silent } = JSON.parse(out) as FleetBundleReply;
    expect({ code, silent: silent.map(({ node, why }) => `${node}: ${why}`) }).toEqual({
      code: 0,
      silent: ['deep: its reply has more than 32 levels', 'silent: a\u001B[2Jb'],
    });
    const root = unpack(file);
    for (const each of files) {
      expect(readFileSync(path.join(root, each), 'utf8')).not.toMatch(/[^ -~\n]/);
    }
    expect(readFileSync(path.join(root, 'status.txt'), 'utf8')).toContain(String.raw`x\u001b[2Jy\u009bz\u202e`);
  });

  test('the status of a node that is too large is named, and is not in the archive', () => {
    expect(() => statusFile({ text: 'a'.repeat(8 * 1024 * 1024) })).toThrow(
      'its status has more than 8388608 characters',
    );
  });

  test('the same cluster gives the same bytes', async () => {
    using _ = new RecordedCluster(pods);
    const [one, other] = ['b.tar.gz', 'c.tar.gz'].map((name) => path.join(folder, name));
    await runFleet('bundle', '-f', one ?? '', '--parallel=1');
    await runFleet('bundle', '-f', other ?? '');
    expect(readFileSync(one ?? '').equals(readFileSync(other ?? ''))).toBe(true);
  });

  test('a path that cannot be written is an error', async () => {
    using _ = new RecordedCluster(new Map([['a', answering('a')]]));
    const { code, err } = await runFleet('bundle', '-f', '/nonexistent/x.tar.gz');
    expect({ code, err }).toEqual({
      code: 2,
      err: expect.stringMatching(/cannot write \/nonexistent\/x\.tar\.gz: ENOENT/),
    });
  });
});
