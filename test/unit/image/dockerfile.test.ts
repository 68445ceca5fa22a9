import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { settingsOf } from '../../../scripts/image/dockerfile.ts';

const VALUES = {
  VERSION: '1.2.3',
  GIT_COMMIT: 'abc',
  CREATED: '2026-01-01T00:00:00Z',
  IMAGE_SOURCE: 'https://example.org',
};

describe('the settings of a Dockerfile', () => {
  const ours = settingsOf(readFileSync('Dockerfile', 'utf8'), VALUES);

  test('the entry point of ours runs the daemon, as root', () => {
    const { entrypoint, user } = ours;
    expect([entrypoint[0], entrypoint.at(-1), user]).toEqual([
      '/usr/bin/node',
      '/usr/lib/kube-ipvs-proxy/kube-ipvs-proxy.mjs',
      '0',
    ]);
  });

  test('malloc has one arena', () => {
    expect(ours.env).toEqual(['MALLOC_ARENA_MAX=1']);
    expect(readFileSync('packaging/kube-ipvs-proxy.sh', 'utf8')).toContain(`export ${ours.env[0]}\n`);
  });

  test('labels have the values of the arguments', () => {
    expect(ours.labels).toEqual({
      'org.opencontainers.image.title': 'kube-ipvs-proxy',
      'org.opencontainers.image.description': 'Service proxy for Kubernetes nodes that programs IPVS or nf_tables',
      'org.opencontainers.image.licenses': 'Apache-2.0',
      'org.opencontainers.image.version': '1.2.3',
      'org.opencontainers.image.revision': 'abc',
      'org.opencontainers.image.created': '2026-01-01T00:00:00Z',
      'org.opencontainers.image.source': 'https://example.org',
    });
  });

  test('its version is that of the package and of the manifests', () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    expect(readFileSync('Dockerfile', 'utf8')).toContain(`ARG VERSION=${version} `);
    for (const manifest of ['base/daemon-set.yaml', 'overlays/restricted/daemon-set-patch.yaml'])
      expect(readFileSync(`manifests/${manifest}`, 'utf8')).toContain(`image: kube-ipvs-proxy:v${version}\n`);
  });

  test('its Node.js is the version of the Makefile', () => {
    const version = /^NODE_VERSION := (.*)$/m.exec(readFileSync('Makefile', 'utf8'))?.[1];
    expect(readFileSync('Dockerfile', 'utf8')).toContain(`ARG NODE_VERSION=${version}\n`);
  });

  test('a label with an argument that nobody sets is an error', () => {
    const text = 'LABEL a="$OTHER"\nENTRYPOINT ["/x"]\n';
    expect(() => settingsOf(text, VALUES)).toThrow('the label a names an unknown argument: OTHER');
  });

  test('an entry point for a shell is an error', () => {
    expect(() => settingsOf('ENTRYPOINT /x\n', VALUES)).toThrow('no ENTRYPOINT in JSON form');
  });
});
