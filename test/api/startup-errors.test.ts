import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { type Ended, PROGRAM, linesOf, runToEnd } from '../support/program.ts';

jest.setTimeout(60_000);

const IS_ROOT = process.getuid?.() === 0;

/** Prefix that drops all capabilities. Root keeps its user id, so it can still read the project's folder. */
const UNPRIVILEGED = IS_ROOT ? ['setpriv', '--inh-caps=-all', '--bounding-set=-all'] : [];

const IPVS = '--proxy-mode=ipvs';

/** Starts the bundled program. Each startup error is one sentence on stderr, with exit code 1. */
describe('a start that fails', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'startup-'));
  });

  afterAll(async () => {
    await rm(folder, { recursive: true });
  });

  async function file(name: string, text: string): Promise<string> {
    const where = path.join(folder, name);
    await writeFile(where, text);
    return where;
  }

  async function start(flags: readonly string[], before: readonly string[]): Promise<Ended> {
    const { KUBERNETES_SERVICE_HOST: _noPod, ...env } = process.env;
    return await runToEnd([...before, process.execPath, PROGRAM, ...flags], { env });
  }

  /** Starts the program, which must fail, and returns its one error. */
  async function sentence(flags: readonly string[], before: readonly string[] = []): Promise<string> {
    const { status, stdout, stderr } = await start(flags, before);
    const lines = linesOf(stderr);
    expect({ status, stdout, lines }).toEqual({ status: 1, stdout: '', lines: [expect.any(String)] });
    return lines[0] ?? '';
  }

  test('a log line of the bundle names the file and line in src that wrote it', async () => {
    const { stderr } = await start([IPVS, `--kubeconfig=${folder}/none`], []);
    const line = Number(/^E.* report-failure\.ts:(\d+)\] "/.exec(stderr)?.[1]);
    const source = await readFile('src/daemon/startup/report-failure.ts', 'utf8');
    expect(source.split('\n')[line - 1]).toContain('log.error(sentence)');
  });

  test('an empty mode is a start-up error', async () => {
    expect(await sentence([])).toBe(
      'kube-ipvs-proxy: no mode is set, which means iptables in kube-proxy: set --proxy-mode=ipvs (or mode: ipvs), or another mode of ' +
        'docs/modes.md',
    );
  });

  test('a mode that does not exist is a start-up error', async () => {
    expect(await sentence(['--proxy-mode=ivps'])).toBe(
      'kube-ipvs-proxy: KubeProxyConfiguration.mode: "ivps" is none of iptables, ipvs, nftables, userspace (--proxy-mode)',
    );
  });

  test('an unknown flag is a start-up error', async () => {
    expect(await sentence([IPVS, '--ipvs-schedular=lc'])).toBe(
      "kube-ipvs-proxy: unknown option '--ipvs-schedular' (Did you mean --ipvs-scheduler?); see --help",
    );
  });

  test('neither a kubeconfig nor a Pod is a start-up error', async () => {
    expect(await sentence([IPVS])).toBe(
      'E no service account found (KUBERNETES_SERVICE_HOST is not set): set --kubeconfig or --master, or run in ' +
        'a Pod with a service account token',
    );
  });

  test('a missing kubeconfig is a start-up error', async () => {
    expect(await sentence([IPVS, `--kubeconfig=${folder}/none`])).toBe(
      `E failed to read kubeconfig ${folder}/none: it does not exist; check --kubeconfig and that the file is mounted and readable`,
    );
  });

  test('an unreadable kubeconfig is a start-up error', async () => {
    const kubeconfig = await file('secret', 'apiVersion: v1');
    await chmod(kubeconfig, 0);
    expect(await sentence([IPVS, `--kubeconfig=${kubeconfig}`], UNPRIVILEGED)).toBe(
      `E failed to read kubeconfig ${kubeconfig}: EACCES: permission denied, open '${kubeconfig}'; check --kubeconfig and that ` +
        'the file is mounted and readable',
    );
  });

  test('a kubeconfig that is not YAML is a start-up error', async () => {
    const kubeconfig = await file('broken', 'a: : b\n');
    expect(await sentence([IPVS, `--kubeconfig=${kubeconfig}`])).toBe(
      `E kubeconfig ${kubeconfig} is not valid: bad indentation of a mapping entry (1:4); fix it with kubectl config`,
    );
  });

  test('a kubeconfig without a current context is a start-up error', async () => {
    const kubeconfig = await file('contextless', 'apiVersion: v1\nkind: Config\n');
    expect(await sentence([IPVS, `--kubeconfig=${kubeconfig}`])).toBe(
      `E kubeconfig ${kubeconfig} has no current-context: choose one with kubectl config use-context`,
    );
  });

  test('a missing configuration file is a start-up error', async () => {
    expect(await sentence([`--config=${folder}/none.yaml`])).toBe(
      `kube-ipvs-proxy: cannot read the configuration file ${folder}/none.yaml: it does not exist; check --config and that the ` +
        'file is mounted and readable',
    );
  });

  test('a configuration file that is not YAML is a start-up error', async () => {
    const config = await file('config-broken.yaml', 'a: [');
    expect(await sentence([`--config=${config}`])).toMatch(
      new RegExp(`^kube-ipvs-proxy: ${config} cannot be read as YAML or JSON: .* at line 1, column 5$`),
    );
  });

  test('a configuration file of another kind is a start-up error', async () => {
    const config = await file(
      'config-kind.yaml',
      'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeletConfiguration\n',
    );
    expect(await sentence([`--config=${config}`])).toBe(
      `kube-ipvs-proxy: ${config} has kind "KubeletConfiguration": want KubeProxyConfiguration`,
    );
  });

  test('an invalid value in a configuration file is a start-up error', async () => {
    const config = await file(
      'config-value.yaml',
      'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\nipvs:\n  syncPeriod: 5\n',
    );
    expect(await sentence([`--config=${config}`])).toBe(
      'kube-ipvs-proxy: KubeProxyConfiguration.ipvs.syncPeriod: want a duration with a unit, such as "30s" or "1h30m", got 5',
    );
  });

  // Works on machines with and without IPVS, because the program checks capabilities first.
  test.each([[[`--manifests=/nonexistent`]], [['--manifests=/nonexistent', '--init-only']], [['--cleanup']]])(
    'a missing right to change the network is a start-up error: %j',
    async (flags) => {
      expect(await sentence([IPVS, ...flags], UNPRIVILEGED)).toBe(
        "E this process may not change the node's network: run it as root or with CAP_NET_ADMIN (in a Pod: " +
          'securityContext.privileged: true)',
      );
    },
  );

  test('a kernel without ip_vs is a start-up error that leaves nothing behind', async () => {
    const bin = path.join(folder, 'modprobe');
    await writeFile(
      bin,
      '#!/bin/sh\necho "modprobe: FATAL: Module ip_vs not found in directory /lib/modules/0" >&2\nexit 1\n',
    );
    await chmod(bin, 0o755);
    // Use a network namespace with an empty /proc/net, so that the result is the same on a machine with IPVS.
    const script = 'mount -t tmpfs none /proc/$$/net && "$@"; echo "status $?"; ip -brief link';
    const argv = ['unshare', ...(IS_ROOT ? [] : ['--map-root-user']), '--mount', '--net', 'sh', '-c', script, 'sh'];
    const { stdout, stderr } = await runToEnd(
      [...argv, process.execPath, PROGRAM, IPVS, `--manifests=${folder}/manifests`],
      { env: { ...process.env, PATH: `${folder}:${process.env['PATH']}` } },
    );
    expect(linesOf(stderr)).toEqual([
      'E the kernel module ip_vs is not loaded, and loading it failed: modprobe: FATAL: Module ip_vs not found in directory ' +
        '/lib/modules/0. Run `modprobe ip_vs` on the node (in a container, mount /lib/modules), delete the Pod if its init ' +
        'container runs --init-only, or use a kernel with CONFIG_IP_VS',
    ]);
    const [status, ...links] = linesOf(stdout);
    expect(status).toBe('status 1');
    expect(links.map((line) => line.split(' ')[0])).toEqual(['lo']);
  });
});
