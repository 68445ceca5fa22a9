import { expect, test } from '@jest/globals';
import { FLAGS } from '../../../src/config/flags/flag-table.ts';
import { flagz } from '../../../src/config/configz.ts';
import { readConfigDocument } from '../../../src/config/config-document.ts';
import { resolveConfig } from '../../../src/config/resolve.ts';
import { configOf } from '../../support/config.ts';

const GIVEN = [
  '--ipvs-exclude-cidrs=10.0.0.0/8',
  '--ipvs-exclude-cidrs=fd00::/8',
  '--feature-gates=ComponentFlagz=true,NFTablesNetlink=false',
  '--vmodule=a=1,b/*=2',
  '--ipvs-udp-timeout=90s',
  '--ipvs-strict-arp',
  '--kube-api-qps=2.50',
  '--ipvs-drain-timeout=60s',
  '--service-metrics-limit=0x10',
];

test('/flagz has each flag once, in the order of names, with its given or default value', () => {
  const lines = flagz(configOf(...GIVEN));
  const names = lines.map((line) => line.slice(0, line.indexOf('=')));
  expect(names).toEqual(FLAGS.map(({ name }) => name).toSorted());
  expect(lines).toEqual(
    expect.arrayContaining([
      'ipvs-exclude-cidrs=10.0.0.0/8,fd00::/8',
      'feature-gates=ComponentFlagz=true,NFTablesNetlink=false',
      'vmodule=a=1,b/*=2',
      'ipvs-udp-timeout=1m30s',
      'ipvs-strict-arp=true',
      'kube-api-qps=2.5',
      'ipvs-drain-timeout=1m0s',
      'service-metrics-limit=16',
      'ipvs-min-sync-period=1s',
      'cleanup=false',
      'healthz-port=10256',
      'master=',
    ]),
  );
});

test('the flags that /flagz prints give the same configuration again', () => {
  const config = configOf(...GIVEN);
  const again = flagz(config).filter((line) => line !== 'write-config-to=');
  expect(configOf(...again.map((line) => `--${line}`)).settings).toEqual(config.settings);
});

test('/flagz shows the value of the configuration file if it overrides a flag', () => {
  const text =
    'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\noomScoreAdj: -5\n';
  const file = { ...readConfigDocument(text, 'f.yaml'), path: 'f.yaml', sha256: '' };
  const lines = flagz(resolveConfig({ config: 'f.yaml', oomScoreAdj: -7, hostnameOverride: 'n1' }, file));
  expect(lines).toEqual(
    expect.arrayContaining(['config=f.yaml', 'oom-score-adj=-5', 'hostname-override=n1', 'proxy-mode=ipvs']),
  );
});
