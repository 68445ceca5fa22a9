import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';

let out = '';
beforeAll(() => {
  out = mkdtempSync(path.join(tmpdir(), 'e2e-kind-'));
});
afterAll(() => rmSync(out, { recursive: true }));

function dryRun(...args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync('scripts/e2e-kind.sh', [`--out=${out}`, '--dry-run', ...args], { encoding: 'utf8' });
}

describe('the script for kind', () => {
  const wanted = ['--kubernetes=v1.35.0', '--family=dual', '--overlay=restricted', '--focus=Services'];

  test('loads the image and installs the proxy before it runs the specs, and removes the cluster', () => {
    const { status, stdout } = dryRun(...wanted);
    expect(status).toBe(0);
    const order = [
      '--image kindest/node:v1.35.0',
      'load image-archive build/image.tar',
      'replace-kube-proxy.sh --context kind-kube-ipvs-proxy-e2e --overlay restricted',
      'https://dl.k8s.io/v1.35.0/kubernetes-test-linux-amd64.tar.gz.sha256',
      'lab/cluster/e2e/run.sh',
      'delete cluster',
    ];
    const places = order.map((text) => stdout.indexOf(text));
    expect(places).not.toContain(-1);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(stdout).toContain('--focus=Services');
  });

  test.each([
    [['--family=ipv5', '--kubernetes=v1.35.0'], 'no such family: ipv5'],
    [['--overlay=shadow', '--kubernetes=v1.35.0'], 'no such overlay: shadow'],
    [['--family=dual'], '--kubernetes is missing'],
    [['--version=1'], 'unknown argument: --version=1'],
  ])('%s is an error', (args, message) => {
    const { status, stderr } = dryRun(...args);
    expect([status, stderr]).toEqual([2, `e2e-kind.sh: ${message}\n`]);
  });
});
