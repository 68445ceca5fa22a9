import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { pages } from '../../../scripts/docs-pages.ts';
import { FLAGS } from '../../../src/config/flags/flag-table.ts';
import { defaultText } from '../../../src/config/flags/setting.ts';
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

  test('the flag table names each flag once', () => {
    const names = FLAGS.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  test.each(FLAGS.map((flag) => [flag.name, flag] as const))(
    '--%s reads its default and its bare form',
    (_name, flag) => {
      const { kind, fallback, flagFallback = fallback } = flag;
      const text = defaultText(flag);
      expect(text === '' && fallback === undefined ? undefined : kind.fromText(text)).toEqual(flagFallback);
      expect(kind.bare === undefined || kind.fromText(kind.bare) !== undefined).toBe(true);
    },
  );
});

test('the version of the program is that of package.json', () => {
  const url = new URL('../../../package.json', import.meta.url);
  expect((JSON.parse(readFileSync(url, 'utf8')) as { version: string }).version).toBe(VERSION);
});

test.each((await pages()).map((page) => [page.path, page.text] as const))(
  '%s is fresh (node scripts/generate-docs.ts)',
  (path, text) => {
    expect(readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')).toBe(text);
  },
);
