import { describe, expect, test } from '@jest/globals';
import { proxyOfCluster } from '../../cluster/e2e/proxy-of-cluster.ts';
import { parseE2eSettings } from '../../cluster/e2e/settings.ts';

describe('settings of make e2e', () => {
  test('without arguments: all groups with ours', () => {
    expect(parseE2eSettings(['PROXY=', 'FOCUS='])).toEqual({
      proxies: ['ours'],
      focus: '',
      procs: 2,
      timeout: '',
      cluster: [],
    });
  });

  test('the order of PROXY=all is that of the columns', () => {
    expect(parseE2eSettings(['PROXY=all']).proxies).toEqual([
      'ours',
      'kube-proxy-ipvs',
      'ours-iptables',
      'kube-proxy-iptables',
      'ours-nftables',
      'kube-proxy-nftables',
    ]);
  });

  test('settings of the cluster are passed on', () => {
    const { focus, cluster } = parseE2eSettings(['FOCUS=Services should=x', 'KUBERNETES=1.35.4', 'FAMILY=dual']);
    expect({ focus, cluster }).toEqual({ focus: 'Services should=x', cluster: ['KUBERNETES=1.35.4', 'FAMILY=dual'] });
  });

  test.each([
    [
      'PROXY=none',
      'PROXY=none is not ours, kube-proxy-ipvs, ours-iptables, kube-proxy-iptables, ours-nftables, kube-proxy-nftables or all',
    ],
    ['PROCS=0', 'PROCS=0 is not a positive number'],
    ['TIMEOUT=90', 'TIMEOUT=90 is not a duration like 90m'],
    ['PROCS=two', 'PROCS=two is not a positive number'],
  ])('%s is refused', (argument, message) => {
    expect(() => parseE2eSettings([argument])).toThrow(message);
  });
});

describe('the service proxy of a cluster', () => {
  const daemonSet = (name: string): object => ({ kind: 'DaemonSet', metadata: { name } });
  const ours = (name: string): object => ({
    ...daemonSet('kube-ipvs-proxy'),
    spec: { template: { spec: { volumes: [{ hostPath: {} }, { configMap: { name } }] } } },
  });
  const configMap = (mode: string, name = 'kube-proxy'): object => ({
    kind: 'ConfigMap',
    metadata: { name },
    data: { 'config.conf': `ipvs:\n  scheduler: ""\n${mode}` },
  });

  test.each<[string, readonly object[], string | undefined]>([
    ['ours', [ours('ours-1'), configMap('mode: ipvs\n', 'ours-1')], 'ours'],
    [
      'ours, in another mode than before',
      [configMap('mode: ipvs\n', 'ours-1'), configMap('mode: nftables\n', 'ours-2'), ours('ours-2')],
      'ours-nftables',
    ],
    ['ours, in iptables mode', [ours('ours-1'), configMap('mode: iptables\n', 'ours-1')], 'ours-iptables'],
    ['kube-proxy, mode ipvs', [daemonSet('kube-proxy'), configMap('mode: ipvs\n')], 'kube-proxy-ipvs'],
    ['kube-proxy, mode in quotes', [daemonSet('kube-proxy'), configMap('mode: "ipvs"\n')], 'kube-proxy-ipvs'],
    ['kube-proxy, no mode', [daemonSet('kube-proxy'), configMap('mode: ""\n')], 'kube-proxy-iptables'],
    ['kube-proxy, mode nftables', [daemonSet('kube-proxy'), configMap('mode: nftables\n')], 'kube-proxy-nftables'],
    ['kube-proxy, a mode that is not compared', [daemonSet('kube-proxy'), configMap('mode: other\n')], undefined],
    ['none', [configMap('mode: ipvs\n')], undefined],
  ])('%s', (_, items, proxy) => {
    expect(proxyOfCluster(JSON.stringify({ items }))).toBe(proxy);
  });
});
