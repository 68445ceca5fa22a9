import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { type Verbs, runCli } from '../../../src/cli/cli.ts';
import { FLAGS, FLAG_GROUPS } from '../../../src/config/flags/flag-table.ts';
import { longVersion } from '../../../src/config/version.ts';

const folder = mkdtempSync(join(tmpdir(), 'cli-'));
afterAll(() => rmSync(folder, { recursive: true }));

interface Result {
  readonly code: number;
  readonly out: readonly string[];
  readonly err: readonly string[];
  readonly ran: readonly string[];
}

async function run(...argv: string[]): Promise<Result> {
  const out: string[] = [];
  const err: string[] = [];
  const ran: string[] = [];
  const verb = (name: string, code: number) => (): Promise<number> => {
    ran.push(name);
    return Promise.resolve(code);
  };
  const verbs: Verbs = {
    run: verb('run', 0),
    cleanup: verb('cleanup', 3),
    'init-only': verb('init-only', 0),
    'dry-run': verb('dry-run', 0),
    command: verb('command', 2),
  };
  const code = await runCli(argv, verbs, { out: (line) => out.push(line), err: (line) => err.push(line) });
  return { code, out, err, ran };
}

describe('verbs', () => {
  test.each([
    [['--proxy-mode=ipvs'], 'run', 0],
    [['--cleanup'], 'cleanup', 3],
    [['--init-only', '--proxy-mode=ipvs'], 'init-only', 0],
    [['--dry-run', '--proxy-mode=ipvs'], 'dry-run', 0],
    [['diff'], 'command', 2],
    [['nonsense', '--cleanup'], 'command', 2],
    // Empty arguments are ignored, as by kube-proxy: an unset variable in quotes gives one.
    [['', '--cleanup', ''], 'cleanup', 3],
    [['--proxy-mode', 'ipvs', '', '--cleanup', '--', '', ''], 'cleanup', 3],
    [['', 'diff'], 'command', 2],
    [['', '--proxy-mode=ipvs', ''], 'run', 0],
    [['--help', 'status'], 'command', 2],
  ] as const)('%j runs %s', async (argv, verb, code) => {
    expect(await run(...argv)).toEqual({ code, out: [], err: [], ran: [verb] });
  });
});

describe('errors are sentences on standard error, and a 1', () => {
  test.each([
    [['--nope'], ["kube-ipvs-proxy: unknown option '--nope'; see --help"]],
    [
      ['--v=x', '--oom-score-adj=y'],
      [
        'kube-ipvs-proxy: --v: want a whole number from 0 to 4294967295, got "x"',
        'kube-ipvs-proxy: --oom-score-adj: want a whole number from -2147483648 to 2147483647, got "y"',
      ],
    ],
    [
      ['--proxy-mode=ipvs', '--oom-score-adj=-2000'],
      [
        'kube-ipvs-proxy: KubeProxyConfiguration.oomScoreAdj: -2000 is out of range: want -1000 to 1000 (--oom-score-adj)',
      ],
    ],
    [
      ['--config=/nonexistent/f.yaml'],
      [
        'kube-ipvs-proxy: cannot read the configuration file /nonexistent/f.yaml: it does not exist; check --config and ' +
          'that the file is mounted and readable',
      ],
    ],
    [
      ['--version=maybe'],
      ['kube-ipvs-proxy: --version: want true, false, raw or a version such as v1.2.3, got "maybe"'],
    ],
  ] as const)('%j', async (argv, err) => {
    expect(await run(...argv)).toEqual({ code: 1, out: [], err, ran: [] });
  });
});

describe('--version', () => {
  test.each([
    [['--version'], `kube-ipvs-proxy ${longVersion()}`],
    [['--version=true'], `kube-ipvs-proxy ${longVersion()}`],
    [['--version=v1.30.0'], `kube-ipvs-proxy ${longVersion()}`],
    [['--version=raw'], expect.stringContaining(`Node.js ${process.version}`)],
  ])('%j', async (argv, text) => {
    expect(await run(...argv)).toEqual({ code: 0, out: [text], err: [], ran: [] });
  });

  test('--version=false prints no version', async () => {
    expect((await run('--version=false', '--proxy-mode=ipvs')).ran).toEqual(['run']);
  });
});

describe('--help', () => {
  test('--help prints the expected text', async () => {
    const { code, out, err } = await run('--help');
    expect({ code, err }).toEqual({ code: 0, err: [] });
    expect(out.join('\n')).toMatchSnapshot();
  });

  test('--help-all names every group and every flag, and has priority over errors in other flags', async () => {
    const text = (await run('--help-all', '--proxy-mode=nonsense')).out.join('\n');
    for (const group of FLAG_GROUPS) expect(text).toContain(`${group}:\n`);
    for (const { name } of FLAGS) expect(text).toMatch(new RegExp(` --${name}[ \n]`));
  });
});

test('--help leaves out the flags that have no effect', async () => {
  const text = (await run('-h')).out.join('\n');
  for (const { name, ignored } of FLAGS) expect(new RegExp(` --${name}[ \\n]`).test(text)).toBe(ignored === undefined);
});

describe('--write-config-to', () => {
  test('--write-config-to writes a file that --config accepts', async () => {
    const path = join(folder, 'written.yaml');
    const written = await run('--proxy-mode=ipvs', '--ipvs-scheduler=lc', '--logtostderr', `--write-config-to=${path}`);
    expect(written).toEqual({
      code: 0,
      out: [],
      err: [
        'kube-ipvs-proxy: --logtostderr has no effect: kube-proxy no longer has it; remove it',
        `kube-ipvs-proxy: wrote the configuration to ${path}`,
      ],
      ran: [],
    });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, 'utf8')).toContain('scheduler: lc\n');
    expect(await run(`--config=${path}`)).toEqual({ code: 0, out: [], err: [], ran: ['run'] });
    const again = join(folder, 'again.yaml');
    await run(`--config=${path}`, `--write-config-to=${again}`);
    expect(readFileSync(again, 'utf8')).toBe(readFileSync(path, 'utf8'));
  });

  test('--write-config-to=- writes the same to stdout, and nothing else', async () => {
    const flags = ['--proxy-mode=ipvs', '--ipvs-scheduler=lc', '--logtostderr'];
    const path = join(folder, 'compared.yaml');
    await run(...flags, `--write-config-to=${path}`);
    const { code, out, err, ran } = await run(...flags, '--write-config-to=-');
    expect(`${out.join('\n')}\n`).toBe(readFileSync(path, 'utf8'));
    expect({ code, err, ran }).toEqual({
      code: 0,
      err: ['kube-ipvs-proxy: --logtostderr has no effect: kube-proxy no longer has it; remove it'],
      ran: [],
    });
    expect(existsSync('-')).toBe(false);
  });

  test('--write-config-to writes fields of our own as a second document, if they are not the defaults', async () => {
    const document = async (...flags: string[]): Promise<string[]> => {
      const { out } = await run('--proxy-mode=ipvs', ...flags, '--write-config-to=-');
      return out.join('\n').split('\n---\n');
    };
    expect(await document()).toHaveLength(1);
    const [first, own] = await document('--service-annotations=weights,forwarding');
    expect(first).toBe((await document()).join());
    expect(own).toBe(
      'apiVersion: kube-ipvs-proxy/v1alpha1\nkind: KubeIPVSProxyConfiguration\nserviceAnnotations:\n  - weights\n  - forwarding',
    );
    const path = join(folder, 'own.yaml');
    const text = `${first}\n---\n${own}\nserviceDefaults: [{ selector: {}, annotations: { scheduler: lc } }]\n`;
    writeFileSync(path, text);
    expect(await run(`--config=${path}`)).toEqual({ code: 0, out: [], err: [], ran: ['run'] });
    const written = await document(`--config=${path}`);
    expect(written[1]).toContain('scheduler: lc');
  });

  test('--write-config-to keeps fields of our own that nftables mode does not have, and says so', async () => {
    const written = async (mode: string): Promise<{ readonly own: string; readonly err: readonly string[] }> => {
      const path = join(folder, `${mode}.yaml`);
      const first = `apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ${mode}\n`;
      const own =
        'apiVersion: kube-ipvs-proxy/v1alpha1\nkind: KubeIPVSProxyConfiguration\nserviceAnnotations: [scheduler]\n' +
        'serviceDefaults: [{ selector: {}, annotations: { connection-limit: "9" }, override: true }]\n';
      writeFileSync(path, `${first}---\n${own}`);
      const { out, err } = await run(`--config=${path}`, '--write-config-to=-');
      return { own: out.join('\n').split('\n---\n')[1] ?? '', err };
    };
    const ipvs = await written('ipvs');
    expect(ipvs.own).toContain('connection-limit: "9"');
    expect(ipvs.err).toEqual([]);
    const nftables = await written('nftables');
    expect(nftables.own).toBe(ipvs.own);
    expect(nftables.err).toEqual([
      'kube-ipvs-proxy: no effect in nftables mode, which has no IPVS and chooses endpoints at random: --service-annotations, serviceDefaults',
    ]);
  });

  test('--write-config-to with a path that cannot be written is an error', async () => {
    const { code, err } = await run('--write-config-to=/nonexistent/x');
    expect({ code, err }).toEqual({
      code: 1,
      err: ['kube-ipvs-proxy: --write-config-to: cannot write /nonexistent/x: its folder does not exist'],
    });
  });
});

test('all errors of a configuration file are reported, with its path', async () => {
  const path = join(folder, 'bad.yaml');
  writeFileSync(
    path,
    'kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nmode: ipvs\noomScoreAdj: 2000\nbindAddress: x\n',
  );
  expect((await run(`--config=${path}`)).err).toEqual([
    'kube-ipvs-proxy: KubeProxyConfiguration.bindAddress: "x" is not an IP address',
    'kube-ipvs-proxy: KubeProxyConfiguration.oomScoreAdj: 2000 is out of range: want -1000 to 1000',
  ]);
});
