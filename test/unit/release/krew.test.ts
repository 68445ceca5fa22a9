import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { load } from 'js-yaml';

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
const SOURCE = 'https://git.example/owner/kube-ipvs-proxy';
const archiveOf = (arch: string): string => `kube-ipvs-proxy-${version}-linux-${arch}.tar.gz`;

const folder = mkdtempSync(path.join(tmpdir(), 'krew-'));
afterAll(() => rmSync(folder, { recursive: true }));

function manifest(): { readonly status: number | null; readonly stdout: string; readonly stderr: string } {
  return spawnSync('scripts/release/krew.sh', [folder, SOURCE], { encoding: 'utf8' });
}

describe('the manifest for krew', () => {
  test('without the archives, there is none', () => {
    const { status, stdout, stderr } = manifest();
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toContain(archiveOf('amd64'));
  });

  test('is what krew accepts, and names the archives of the release with their checksums', () => {
    for (const arch of ['amd64', 'arm64']) writeFileSync(path.join(folder, archiveOf(arch)), arch);
    const { status, stdout, stderr } = manifest();
    expect([status, stderr]).toEqual([0, '']);
    const platform = (arch: string): object => ({
      selector: { matchLabels: { os: 'linux', arch } },
      uri: `${SOURCE}/releases/download/v${version}/${archiveOf(arch)}`,
      sha256: createHash('sha256').update(arch).digest('hex'),
      bin: 'bin/kubectl-ipvs_proxy',
    });
    // What krew requires: this version and kind, a name of [\w-], a version with v, and a short description in one line.
    expect(load(stdout)).toEqual({
      apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
      kind: 'Plugin',
      metadata: { name: 'ipvs-proxy' },
      spec: {
        version: `v${version}`,
        homepage: SOURCE,
        shortDescription: expect.stringMatching(/^[A-Z][^\n]{10,50}[^.\n]$/),
        description: expect.stringContaining('support archive'),
        caveats: expect.stringContaining(`${SOURCE}/blob/v${version}/docs/fleet.md\n`),
        platforms: ['amd64', 'arm64'].map(platform),
      },
    });
    expect(stdout).not.toMatch(/VERSION|SOURCE|SHA256|#/);
  });
});
