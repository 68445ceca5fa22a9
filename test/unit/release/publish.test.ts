import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';

const DIGEST = `sha256:${'a'.repeat(64)}`;
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'publish-'));
  writeFileSync(path.join(folder, 'image-digest'), `${DIGEST}\n`);
  writeFileSync(path.join(folder, 'a.tgz'), 'a');
  writeFileSync(path.join(folder, 'SHA256SUMS'), `${createHash('sha256').update('a').digest('hex')}  a.tgz\n`);
});
afterAll(() => rmSync(folder, { recursive: true }));

function publish(tag: string, ...args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  const places = ['example.org/kube-ipvs-proxy', 'oci://example.org/charts'];
  // Of the programs that it calls, only those of a test exist.
  const env = {
    PATH: `${path.dirname(process.execPath)}:/usr/bin:/bin:${path.join(folder, 'bin')}`,
    HOME: folder,
    GITHUB_REF_NAME: tag,
  };
  return spawnSync('scripts/release/publish.sh', [folder, ...places, ...args], { encoding: 'utf8', env });
}

describe('publishing a release', () => {
  test('signs the image that was pushed, by its digest, before the release names it', () => {
    const { status, stdout } = publish('', '--dry-run');
    expect(status).toBe(0);
    const commands = stdout.split('\n').map((line) => line.split(' ').slice(1, 3).join(' '));
    expect(commands.filter((command) => command !== '')).toEqual([
      'skopeo copy',
      'cosign sign',
      'cosign attest',
      'cosign attest',
      'helm push',
      'cosign sign',
      'cosign sign-blob',
      'gh release',
    ]);
    expect(stdout).toContain(`+ cosign sign --yes example.org/kube-ipvs-proxy@${DIGEST}\n`);
    expect(stdout).toContain('+ cosign sign --yes example.org/charts/kube-ipvs-proxy@DIGEST\n');
    expect(stdout).toContain(`docker://example.org/kube-ipvs-proxy:v${version}\n`);
  });

  test.each([
    ['the digest that helm prints', `Pushed: example.org/charts/kube-ipvs-proxy:1\nDigest: ${DIGEST}\n`, 0],
    ['no digest is an error', 'Pushed: example.org/charts/kube-ipvs-proxy:1\n', 1],
  ])('signs the chart: %s', (_name, printed, wanted) => {
    const calls = path.join(folder, 'calls');
    writeFileSync(calls, '');
    const versions = readFileSync('scripts/go-tool.sh', 'utf8');
    for (const name of ['skopeo', 'gh', 'helm', 'cosign']) {
      const cached = new RegExp(`^  \\[${name}\\]=.*@(.*)$`, 'm').exec(versions)?.[1];
      const bin = path.join(folder, cached === undefined ? 'bin' : `.cache/kube-ipvs-proxy/tools/${cached}`);
      const lines = ['#!/bin/sh', `echo "${name} $*" >>'${calls}'`];
      if (name === 'helm') lines.push(`printf '%s' '${printed}' >&2`);
      mkdirSync(bin, { recursive: true });
      writeFileSync(path.join(bin, name), lines.join('\n'), { mode: 0o755 });
    }
    expect(publish(`v${version}`).status).toBe(wanted);
    const signed = readFileSync(calls, 'utf8').includes(
      `cosign sign --yes example.org/charts/kube-ipvs-proxy@${DIGEST}`,
    );
    expect(signed).toBe(wanted === 0);
    expect(readFileSync(calls, 'utf8').includes('gh release')).toBe(wanted === 0);
  });

  test('a tag of another version is an error, before anything is published', () => {
    const { status, stdout, stderr } = publish('v99.0.0');
    expect(status).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toContain(`the tag v99.0.0 is not v${version}`);
  });

  test('a file that was changed after the build is an error', () => {
    writeFileSync(path.join(folder, 'a.tgz'), 'b');
    const { status, stdout } = publish('', '--dry-run');
    expect(status).not.toBe(0);
    expect(stdout).not.toContain('skopeo');
  });
});
