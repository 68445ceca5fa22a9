import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { pages } from '../../../scripts/docs-pages.ts';
import { FIELD_PATHS, defaultValues } from '../../../src/config/config-fields.ts';
import { FLAGS } from '../../../src/config/flag-table.ts';
import { kindOfFlag } from '../../../src/config/flag-values.ts';
import { VERSION } from '../../../src/config/version.ts';

// What kube-proxy takes (1.29 and later), for Linux.
const KUBE_PROXY_FLAGS = `
  bind-address bind-address-hard-fail boot-id-file cleanup cluster-cidr config config-sync-period conntrack-max-per-core conntrack-min
  conntrack-tcp-be-liberal conntrack-tcp-timeout-close-wait conntrack-tcp-timeout-established conntrack-udp-timeout
  conntrack-udp-timeout-stream detect-local-mode feature-gates healthz-bind-address healthz-port help hostname-override init-only
  iptables-localhost-nodeports iptables-masquerade-bit iptables-min-sync-period iptables-sync-period ipvs-exclude-cidrs
  ipvs-min-sync-period ipvs-scheduler ipvs-strict-arp ipvs-sync-period ipvs-tcp-timeout ipvs-tcpfin-timeout ipvs-udp-timeout
  kube-api-burst kube-api-content-type kube-api-qps kubeconfig log-flush-frequency log-json-info-buffer-size log-json-split-stream
  log-text-info-buffer-size log-text-split-stream logging-format machine-id-file masquerade-all master metrics-bind-address metrics-port
  nodeport-addresses oom-score-adj pod-bridge-interface pod-interface-name-prefix profiling proxy-mode
  show-hidden-metrics-for-version v version vmodule write-config-to`
  .trim()
  .split(/\s+/);

describe('the flag table', () => {
  test.each(KUBE_PROXY_FLAGS)('has --%s', (name) => {
    expect(FLAGS.map((flag) => flag.name)).toContain(name);
  });

  test('names each flag and each field once', () => {
    const names = FLAGS.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    const fields = FLAGS.flatMap(({ field }) => field ?? []);
    expect(new Set(fields).size).toBe(fields.length);
    expect(FIELD_PATHS).toEqual(expect.arrayContaining(fields));
  });

  const withField = FLAGS.flatMap((flag) => (flag.field === undefined ? [] : [[flag, flag.field] as const]));

  test.each(withField.map(([flag, field]) => [flag.name, flag, field] as const))(
    'the default of --%s is that of its field',
    (name, flag, field) => {
      // kube-proxy's own exception: flags alone run with the default of another mode.
      const fallback = name === 'ipvs-min-sync-period' ? 1000 : defaultValues()[field];
      expect(kindOfFlag(flag).fromText(flag.default)).toEqual(fallback);
    },
  );

  test.each(FLAGS.map((flag) => [flag.name, flag] as const))('what is stated about --%s can be read', (_name, flag) => {
    const kind = kindOfFlag(flag);
    const fallback = kind.fromText(flag.default);
    expect(fallback).toBeDefined();
    expect(kind.toText(fallback)).toBe(flag.default);
    expect(flag.bare === undefined || kind.fromText(flag.bare) !== undefined).toBe(true);
  });
});

test('the version is that of package.json', () => {
  const url = new URL('../../../package.json', import.meta.url);
  expect((JSON.parse(readFileSync(url, 'utf8')) as { version: string }).version).toBe(VERSION);
});

test.each(pages().map((page) => [page.path, page.text] as const))(
  '%s is fresh (node scripts/generate-docs.ts)',
  (path, text) => {
    expect(readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')).toBe(text);
  },
);
