import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
const ARCH = process.arch === 'x64' ? 'amd64' : process.arch;
const UNIT = 'lib/systemd/system/kube-ipvs-proxy.service';

let root = '';
beforeAll(() => {
  root = mkdtempSync(path.join(tmpdir(), 'archive-'));
  execFileSync('tar', ['-xzf', `build/kube-ipvs-proxy-${version}-linux-${ARCH}.tar.gz`, '-C', root]);
});
afterAll(() => rmSync(root, { recursive: true }));

describe('the archive of `make archive`, unpacked in some folder', () => {
  test('krew unpacks it: it has folders and files alone, whose paths stay in the folder', () => {
    const args = ['--list', '--verbose', '--file', `build/kube-ipvs-proxy-${version}-linux-${ARCH}.tar.gz`];
    const entries = execFileSync('tar', args, { encoding: 'utf8' }).trimEnd().split('\n');
    expect(entries.filter((entry) => !/^[d-].* \.\/[^ ]*$/.test(entry) || entry.includes('..'))).toEqual([]);
    expect(entries.length).toBeGreaterThan(10);
  });

  test('has the plugin of kubectl, whose subcommands are those of fleet, also by the link of krew', () => {
    const args = ['status', '--help'];
    const link = path.join(root, 'kubectl-ipvs_proxy');
    symlinkSync(path.join(root, 'bin/kubectl-ipvs_proxy'), link);
    const own = execFileSync(link, args, { encoding: 'utf8' });
    const program = path.join(root, 'sbin/kube-ipvs-proxy');
    expect(own).toBe(execFileSync(program, ['fleet', ...args], { encoding: 'utf8' }));
    expect(own).toContain('--all-nodes');
  });

  test('its program runs with its own Node.js, also by a symbolic link', () => {
    const link = path.join(root, 'link');
    execFileSync('ln', ['-s', 'sbin/kube-ipvs-proxy', link]);
    const stdout = execFileSync(link, ['--version'], { encoding: 'utf8', env: { PATH: '/usr/bin:/bin' } });
    expect(stdout).toContain(`kube-ipvs-proxy v${version} (commit `);
  });

  test('its program accepts the sample of a configuration', () => {
    const written = path.join(root, 'written');
    const args = ['--config', path.join(root, 'share/doc/kube-ipvs-proxy/config.conf'), '--write-config-to', written];
    const { status, stderr } = spawnSync(path.join(root, 'sbin/kube-ipvs-proxy'), args, { encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, `kube-ipvs-proxy: wrote the configuration to ${written}\n`]);
    expect(readFileSync(written, 'utf8')).toContain('scheduler: rr');
  });

  test('has a manual page', () => {
    expect(readFileSync(path.join(root, 'share/man/man8/kube-ipvs-proxy.8'), 'utf8')).toContain(`proxy ${version}"`);
  });

  test('its list of components has Node.js and npm packages, and no package that it does not contain', () => {
    const file = path.join(root, 'share/doc/kube-ipvs-proxy/sbom.cdx.json');
    const { components } = JSON.parse(readFileSync(file, 'utf8')) as { components: readonly { purl?: string }[] };
    const kinds = components.map(({ purl }) => /^pkg:(\w+)\//.exec(purl ?? '')?.[1]);
    expect([...new Set(kinds)]).toEqual(['generic', 'npm']);
  });

  if (spawnSync('systemd-analyze', ['--version']).status !== 0)
    test.todo('systemd-analyze, which is not installed, did not verify the unit');
  else
    test('systemd accepts the unit', () => {
      const text = readFileSync(path.join(root, UNIT), 'utf8');
      const copy = path.join(root, 'kube-ipvs-proxy.service');
      writeFileSync(copy, text.replaceAll('/usr/local/sbin', path.join(root, 'sbin')));
      const { status, stderr } = spawnSync('systemd-analyze', ['--man=no', 'verify', copy], { encoding: 'utf8' });
      expect([status, stderr]).toEqual([0, '']);
    });
});
