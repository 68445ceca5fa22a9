import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { IMAGE, imageEntrypoint, imageEnvironment, inContainer } from '../support/image.ts';

jest.setTimeout(180_000);

/** Of resident memory; more than half of it is the Node.js program itself, shared with every other process of it. */
const MOST_MIB = 75;

const FLAGS = [
  '--proxy-mode=ipvs',
  '--hostname-override=node-0',
  '--conntrack-max-per-core=0',
  '--manifests=/etc/kube-ipvs-proxy',
  '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
];

/** The image's root file system as `make image` leaves it, the daemon in it started by the Dockerfile's own command line. */
describe('the image', () => {
  let bed: Bed;
  let node: Namespace;
  let daemon: LongProcess;
  let entrypoint: readonly string[];
  let env: Readonly<Record<string, string>>;

  beforeAll(async () => {
    entrypoint = await imageEntrypoint();
    env = await imageEnvironment();
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    for (const index of [0, 1]) await bed.pod(0, index).serveTcp(8080);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
  });

  const inImage = (...argv: readonly string[]): readonly string[] => inContainer('manifests/demo', argv);

  test('the image has no shell, no package manager and no setuid program', async () => {
    const files = await readdir(IMAGE, { recursive: true, withFileTypes: true });
    const names = new Set(files.filter((file) => !file.isDirectory()).map(({ name }) => name));
    for (const name of ['sh', 'bash', 'dash', 'busybox', 'apt', 'apt-get', 'dpkg', 'npm', 'perl']) {
      expect([name, names.has(name)]).toEqual([name, false]);
    }
    const { stdout } = await node.exec(['find', IMAGE, '-xdev', '-perm', '/6000', '-type', 'f']);
    expect(stdout).toBe('');
  });

  test('the image lists its Debian and npm packages for scanners', async () => {
    const listed = await readdir(path.join(IMAGE, 'var/lib/dpkg/status.d'));
    expect(listed).toEqual(
      expect.arrayContaining(['iptables', 'kmod', 'libc6', expect.stringMatching(/^libssl3(t64)?$/)]),
    );
    const bom = await readFile(path.join(IMAGE, 'usr/lib/kube-ipvs-proxy/sbom.cdx.json'), 'utf8');
    const { bomFormat, components } = JSON.parse(bom) as { bomFormat: string; components: { name: string }[] };
    expect(bomFormat).toBe('CycloneDX');
    const names = components.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['winston', '@kubernetes/client-node', 'js-yaml']));
    expect(names).not.toContain('jest');
  });

  test('both variants of iptables run in the image', async () => {
    for (const variant of ['legacy', 'nft']) {
      const { stdout } = await node.exec(inImage(`/usr/sbin/iptables-${variant}-save`, '--version'));
      expect(stdout).toContain(variant === 'nft' ? 'nf_tables' : 'legacy');
    }
  });

  test('the image contains the CA certificates of Node.js, for API servers without a CA in the kubeconfig', async () => {
    const { stdout } = await node.exec(inImage('/usr/bin/node', '-p', 'tls.rootCertificates.length'), { env });
    const certificates = await readFile(path.join(IMAGE, 'etc/ssl/cert.pem'), 'utf8');
    expect(certificates.split('BEGIN CERTIFICATE').length - 1).toBe(Number(stdout));
  });

  test('the daemon in the image serves with a read-only root file system', async () => {
    daemon = await node.spawn(inImage(...entrypoint, ...FLAGS), env);
    await daemon.waitForOutput(/initial sync complete/, 60_000);
    const { stdout } = await node.exec(['ipvsadm', '-Sn']);
    expect(stdout).toContain('-a -t 10.202.0.10:80 -r 10.201.0.11:8080 -m -w 1');
    for (const [address, port] of [
      ['10.202.0.10', 80],
      ['10.200.0.10', 30_080],
      ['fd00:202::a', 80],
    ] as const) {
      expect(await bed.client(0).probeTcp(address, port)).toMatchObject({ ok: true });
    }
    expect(daemon.output).not.toMatch(/^E.* logger="(sync|config|api)/m);
  });

  test('the idle daemon in the image uses little memory', async () => {
    await new Promise((resolve) => setTimeout(resolve, 10_000));
    const status = await readFile(`/proc/${daemon.pid}/status`, 'utf8');
    const mib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
    process.stdout.write(`resident when idle: ${mib.toFixed(1)} MiB\n`);
    expect(mib).toBeGreaterThan(20);
    expect(mib).toBeLessThanOrEqual(MOST_MIB);
  });

  test('SIGTERM ends the daemon in the image with 0; --cleanup from the image leaves nothing', async () => {
    await daemon.stop(10_000);
    expect(daemon.exit).toBe(0);
    const cleaned = await node.exec(inImage(...entrypoint, ...FLAGS, '--cleanup'), { env, timeoutMs: 60_000 });
    expect(cleaned.stdout + cleaned.stderr).toContain('clean-up done');
    expect((await node.exec(['ipvsadm', '-Sn'])).stdout).toBe('');
    expect((await node.exec(['iptables-save'])).stdout).not.toContain('KUBE-');
  });
});
