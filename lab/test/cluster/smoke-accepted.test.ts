import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { load } from 'js-yaml';
import { acceptedCheck, allManifests } from '../../cluster/smoke/accepted.ts';

const ROLE = 'clusterrole.rbac.authorization.k8s.io/kube-ipvs-proxy unchanged (server dry run)\n';
const DAEMON_SET = 'daemonset.apps/kube-ipvs-proxy configured (server dry run)\n';

test('every overlay and the chart are asked about', () => {
  const all = allManifests('/bin/kubectl', '/bin/helm');
  expect(all.slice(0, 5).map(({ name }) => name)).toEqual([
    'overlay privileged',
    'overlay restricted',
    'overlay shadow',
    'chart with apiServer=https://192.0.2.1:6443,overlay=privileged',
    'chart with apiServer=https://192.0.2.1:6443,overlay=restricted',
  ]);
  expect(all[2]?.argv).toEqual([
    '/bin/kubectl',
    'kustomize',
    expect.stringMatching(/^\/.*manifests\/overlays\/shadow$/),
  ]);
  expect(all[4]?.argv).toEqual(
    expect.arrayContaining(['/bin/helm', 'template', '--set=apiServer=https://192.0.2.1:6443,overlay=restricted']),
  );
});

test('each value of the chart is in one of the uses', () => {
  const used = new Set(
    allManifests('kubectl', 'helm').flatMap(({ argv }) => {
      const use = argv.at(-1) ?? '';
      if (use.startsWith('--values=')) return Object.keys(load(readFileSync(use.slice(9), 'utf8')) as object);
      return Array.from(use.matchAll(/[=,](\w+)[.\w]*=/g), ([, name]) => name);
    }),
  );
  const values = load(readFileSync('charts/kube-ipvs-proxy/values.yaml', 'utf8')) as object;
  expect(Object.keys(values).filter((name) => !used.has(name))).toEqual([]);
});

describe('the answer of the API server', () => {
  const NAME = 'the API server accepts the overlay shadow';

  test.each([
    ['all objects accepted', { status: 0, stdout: ROLE + DAEMON_SET, stderr: 'Warning: x' }, undefined],
    ['one refused', { status: 1, stdout: ROLE, stderr: 'The DaemonSet is invalid\n' }, 'The DaemonSet is invalid'],
    ['nothing asked', { status: 0, stdout: ROLE, stderr: '' }, 'it has no DaemonSet'],
    ['no output', { status: 0, stdout: '', stderr: '' }, 'not a dry run: '],
    [
      'objects stored',
      { status: 0, stdout: DAEMON_SET.replace(' (server dry run)', ''), stderr: '' },
      'not a dry run: daemonset.apps/kube-ipvs-proxy configured',
    ],
  ])('%s', (_what, result, failure) => {
    expect(acceptedCheck('overlay shadow', result)).toEqual({ name: NAME, ...(failure !== undefined && { failure }) });
  });
});
