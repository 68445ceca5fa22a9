import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { parseArgv } from '../../../src/cli/parse-argv.ts';
import { writeConfig } from '../../../src/cli/write-config.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import type { ConfigError } from '../../../src/config/value/problem.ts';
import type { ProxyConfig } from '../../../src/config/proxy-config.ts';
import { FIELD_PATHS } from '../../../src/config/flags/settings.ts';
import { parseCidr } from '../../../src/base/cidr.ts';
import { parseIp } from '../../../src/base/ip.ts';

/** Configurations that are out there, as their tools and guides write them: each starts here as it is, but for the mode. */
const FOLDER = 'test/unit/config/known-configs';

async function load(argv: readonly string[]): Promise<ProxyConfig> {
  const parsed = parseArgv(argv);
  if (!parsed.ok) throw new Error(parsed.errors.join('\n'));
  return await loadConfig(parsed.given);
}

async function problemsOf(argv: readonly string[]): Promise<readonly string[]> {
  return await load(argv).then(
    () => [],
    (error: ConfigError) => error.problems,
  );
}

function fieldsOf({ settings }: ProxyConfig): unknown {
  return FIELD_PATHS.map((path) => [path, settings[path]]);
}

const cidrs = (...texts: readonly string[]): ProxyConfig['clusterCidrs'] => texts.map((text) => parseCidr(text)!);

const KUBEADM_FLAGS = ['--hostname-override=node-1'];
const KUBEADM: Partial<ProxyConfig> = {
  hostnameOverride: 'node-1',
  scheduler: 'rr',
  syncPeriod: 30_000,
  minSyncPeriod: 0,
  oomScoreAdj: -999,
  masqueradeBit: 14,
  nodePortAddresses: { primary: false, cidrs: [] },
  excludeCidrs: [],
  healthzBind: { address: parseIp('0.0.0.0')!, port: 10_256 as never },
  metricsBind: { address: parseIp('127.0.0.1')!, port: 10_249 as never },
  notes: [],
};

interface Known {
  readonly name: string;
  readonly argv: readonly string[];
  readonly becomes: Partial<ProxyConfig>;
}

const file = (name: string): string => `--config=${FOLDER}/${name}.yaml`;

const FILES: readonly Known[] = [
  {
    name: 'kubeadm-ipvs',
    argv: [file('kubeadm-ipvs'), ...KUBEADM_FLAGS],
    becomes: { ...KUBEADM, clusterCidrs: cidrs('10.244.0.0/16'), strictArp: false },
  },
  {
    name: 'kubeadm-1-20-ipvs',
    argv: [file('kubeadm-1-20-ipvs'), ...KUBEADM_FLAGS],
    becomes: {
      ...KUBEADM,
      clusterCidrs: cidrs('192.168.0.0/16'),
      strictArp: true,
      notes: ['udpIdleTimeout has no effect: kube-proxy no longer has it; remove it'],
    },
  },
  {
    name: 'kubespray',
    argv: [file('kubespray'), ...KUBEADM_FLAGS],
    becomes: { ...KUBEADM, clusterCidrs: cidrs('10.233.64.0/18'), profiling: false },
  },
  {
    name: 'kind',
    argv: [file('kind'), ...KUBEADM_FLAGS],
    becomes: {
      ...KUBEADM,
      clusterCidrs: cidrs('10.244.0.0/16', 'fd00:10:244::/56'),
      conntrack: {
        maxPerCore: 0,
        min: 131_072,
        tcpEstablishedTimeout: 0,
        tcpCloseWaitTimeout: 0,
        tcpBeLiberal: false,
        udpTimeout: 0,
        udpStreamTimeout: 0,
      },
    },
  },
  { name: 'tutorial-metallb', argv: [file('tutorial-metallb')], becomes: { strictArp: true, notes: [] } },
  {
    name: 'tutorial-binaries',
    argv: [file('tutorial-binaries'), '--v=2'],
    becomes: {
      hostnameOverride: 'worker-1',
      scheduler: 'wrr',
      minSyncPeriod: 5_000,
      nodeIpOverride: parseIp('192.168.10.21')!,
      notes: [],
    },
  },
];

/** What k3s and RKE2 start their own kube-proxy with, and what their users add by kube-proxy-arg. */
const RANCHER = [
  '--cluster-cidr=10.42.0.0/16',
  '--conntrack-max-per-core=0',
  '--conntrack-tcp-timeout-close-wait=0s',
  '--conntrack-tcp-timeout-established=0s',
  '--healthz-bind-address=127.0.0.1',
  '--hostname-override=node-1',
];

const RANCHER_CONFIG: Partial<ProxyConfig> = {
  clusterCidrs: cidrs('10.42.0.0/16'),
  healthzBind: { address: parseIp('127.0.0.1')!, port: 10_256 as never },
  minSyncPeriod: 1_000,
  notes: [],
};

const COMMAND_LINES: readonly Known[] = [
  {
    name: 'k3s with --kube-proxy-arg=proxy-mode=ipvs',
    argv: [
      ...RANCHER,
      '--kubeconfig=/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig',
      '--proxy-mode=ipvs',
      '--ipvs-scheduler=lc',
    ],
    becomes: { ...RANCHER_CONFIG, scheduler: 'lc' },
  },
  {
    name: 'RKE2 with proxy-mode=ipvs and ipvs-strict-arp=true',
    argv: [
      ...RANCHER,
      '--ipvs-strict-arp=true',
      '--kubeconfig=/var/lib/rancher/rke2/agent/kubeproxy.kubeconfig',
      '--proxy-mode=ipvs',
    ],
    becomes: { ...RANCHER_CONFIG, strictArp: true, scheduler: 'rr' },
  },
  {
    name: 'a unit file of a cluster from single binaries',
    argv: [
      '--kubeconfig=/etc/kubernetes/kube-proxy.kubeconfig',
      '--proxy-mode=ipvs',
      '--masquerade-all=true',
      '--ipvs-min-sync-period=5s',
      '--ipvs-sync-period=5s',
      '--ipvs-scheduler=rr',
      '--cluster-cidr=10.244.0.0/16',
      '--logtostderr=true',
      '--v=2',
    ],
    becomes: {
      masqueradeAll: true,
      minSyncPeriod: 5_000,
      syncPeriod: 5_000,
      notes: ['--logtostderr has no effect: kube-proxy no longer has it; remove it'],
    },
  },
];

const KNOWN = [...FILES, ...COMMAND_LINES];

describe.each(KNOWN)('$name', ({ argv, becomes }) => {
  test('the configuration file is accepted, and means the same as to kube-proxy', async () => {
    expect(await load(argv)).toMatchObject({ action: 'run', ...becomes });
  });
});

describe('written with --write-config-to and read with --config', () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'known-'));
  });

  afterEach(async () => {
    await rm(folder, { recursive: true });
  });

  test.each(KNOWN)('$name is the same', async ({ argv }) => {
    const said: string[] = [];
    const target = path.join(folder, 'written.yaml');
    const written = await load([...argv, `--write-config-to=${target}`]);
    expect(await writeConfig(target, written, { out: (line) => said.push(line), err: (line) => said.push(line) })).toBe(
      0,
    );
    const again = await load([`--config=${target}`]);
    expect(fieldsOf(again)).toEqual(fieldsOf(written));
    expect(fieldsOf(again)).toEqual(fieldsOf(await load(argv)));
    expect(again.notes).toEqual([]);
    expect(said.at(-1)).toBe(`kube-ipvs-proxy: wrote the configuration to ${target}`);
  });
});

describe('what kubeadm writes by default', () => {
  const refusal =
    'no mode is set, which means iptables in kube-proxy: set --proxy-mode=ipvs (or mode: ipvs), or another mode of docs/modes.md';

  test('the empty mode of kubeadm is refused with a remedy', async () => {
    expect(await problemsOf([file('kubeadm'), ...KUBEADM_FLAGS])).toEqual([refusal]);
  });

  test('--proxy-mode does not override the empty mode of the file', async () => {
    expect(await problemsOf([file('kubeadm'), '--proxy-mode=ipvs', ...KUBEADM_FLAGS])).toEqual([refusal]);
  });

  test('the file of kubeadm is accepted with the mode ipvs', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'kubeadm-'));
    try {
      const target = path.join(folder, 'config.conf');
      const text = await readFile(`${FOLDER}/kubeadm.yaml`, 'utf8');
      await writeFile(target, text.replace(/^mode:.*$/m, 'mode: ipvs'));
      expect(await load([`--config=${target}`, ...KUBEADM_FLAGS])).toMatchObject({ ...KUBEADM, strictArp: false });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
