import { execFileSync } from 'node:child_process';
import { lstatSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { IMAGE } from '../support/image.ts';

const ARCHIVE = path.resolve('build/image.tar');
const MEBIBYTE = 2 ** 20;
const LIMIT = 110 * MEBIBYTE;

interface Component {
  readonly type: string;
  readonly name: string;
  readonly purl?: string;
  readonly version: string;
  readonly components?: readonly Component[];
}

interface Descriptor {
  readonly digest: string;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Paths of the regular files in a folder. Symbolic links such as /bin are not followed. */
function filesOf(folder: string): string[] {
  return execFileSync('find', [folder, '-type', 'f'], { encoding: 'utf8' }).trimEnd().split('\n');
}

function member(name: string): Buffer {
  return execFileSync('tar', ['--extract', '--to-stdout', `--file=${ARCHIVE}`, name], { maxBuffer: LIMIT });
}

function blob<T>(digest: string): T {
  return JSON.parse(member(`blobs/${digest.replace(':', '/')}`).toString()) as T;
}

describe('the image of `make image`', () => {
  const files = filesOf(IMAGE);

  test('has at most 110 MiB', () => {
    const sizes = files.map((file) => lstatSync(file).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(LIMIT);
  });

  test('has no shell, package manager, header, encoding of iconv or setuid program', () => {
    expect(files.filter((file) => /\/(?:sh|bash|dash|busybox|npm|npx|apt|dpkg)$|\/gconv\/|\.h$/.test(file))).toEqual(
      [],
    );
    expect(files.filter((file) => (lstatSync(file).mode & 0o6000) !== 0)).toEqual([]);
  });

  test('its list of components names Node.js, its parts, npm packages and Debian packages', () => {
    const file = path.join(IMAGE, 'usr/lib/kube-ipvs-proxy/sbom.cdx.json');
    const { components } = JSON.parse(readFileSync(file, 'utf8')) as { components: readonly Component[] };
    const names = components.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['node', '@kubernetes/client-node', 'winston', 'iptables', 'libc6']));
    expect(names).not.toContain('jest');
    // Without them, a scanner does not know whose packages these are.
    const system = components.find(({ type }) => type === 'operating-system');
    const libc = components.find(({ name }) => name === 'libc6');
    expect(system?.name).toMatch(/^(?:debian|ubuntu)$/);
    expect(libc?.purl).toMatch(
      new RegExp(`^pkg:deb/${system?.name}/libc6@.*&distro=${system?.name}-${system?.version}$`),
    );
    const node = components.find(({ name }) => name === 'node');
    expect(node?.components?.map(({ name }) => name)).toEqual(expect.arrayContaining(['openssl', 'v8', 'uv', 'icu']));
  });
});

describe('the archive of the image', () => {
  const [top] = (JSON.parse(member('index.json').toString()) as { manifests: readonly Descriptor[] }).manifests;
  const manifest = blob<{ config: Descriptor; layers: readonly Descriptor[] }>(top?.digest ?? '');
  const { config } = blob<{ config: { Labels: Readonly<Record<string, string>>; Entrypoint: readonly string[] } }>(
    manifest.config.digest,
  );

  test('has the name of the manifests for containerd', () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    expect(top?.annotations['io.containerd.image.name']).toBe(`docker.io/library/kube-ipvs-proxy:v${version}`);
  });

  test('names the commit and the time of the bundle', () => {
    const bundle = readFileSync(path.join(IMAGE, 'usr/lib/kube-ipvs-proxy/kube-ipvs-proxy.js'), 'utf8');
    expect(bundle).toContain(config.Labels['org.opencontainers.image.revision']);
    expect(bundle).toContain(config.Labels['org.opencontainers.image.created']);
  });

  test('has one layer, and the entry point of the Dockerfile', () => {
    expect(manifest.layers).toHaveLength(1);
    expect(config.Entrypoint[0]).toBe('/usr/bin/node');
  });
});
