import { expect, test } from '@jest/globals';
import { parseProxyUrl, proxyFromEnvironment } from '../../../../src/kube/kubeconfig/proxy-choice.ts';

const PROXY = 'http://proxy.example:3128';
const API = 'https://api.cluster.example:6443';

function chosen(url: string, environment: Readonly<Record<string, string>>): string | undefined {
  return proxyFromEnvironment(new URL(url), environment)?.origin;
}

test.each([
  ['nothing is set', API, {}, undefined],
  ['HTTPS_PROXY', API, { HTTPS_PROXY: PROXY }, PROXY],
  ['https_proxy', API, { https_proxy: PROXY }, PROXY],
  ['capitals go first', API, { HTTPS_PROXY: PROXY, https_proxy: 'http://other' }, PROXY],
  ['no scheme means http', API, { HTTPS_PROXY: 'proxy.example:3128' }, PROXY],
  ['HTTP_PROXY is not for https', API, { HTTP_PROXY: PROXY }, undefined],
  ['HTTP_PROXY is for http', 'http://api.example:8080', { HTTP_PROXY: PROXY }, PROXY],
  ['what is no URL', API, { HTTPS_PROXY: 'http://[' }, undefined],
  ['localhost', 'https://localhost:6443', { HTTPS_PROXY: PROXY }, undefined],
  ['127.0.0.0/8', 'https://127.8.0.1:6443', { HTTPS_PROXY: PROXY }, undefined],
  ['::1', 'https://[::1]:6443', { HTTPS_PROXY: PROXY }, undefined],
] as const)('%s', (_name, url, environment, proxy) => {
  expect(chosen(url, environment)).toBe(proxy);
});

test.each([
  ['*', API, true],
  ['other.example, api.cluster.example', API, true],
  ['API.Cluster.Example', API, true],
  ['cluster.example', API, true],
  ['.cluster.example', API, true],
  ['*.cluster.example', API, true],
  ['.api.cluster.example', API, false],
  ['uster.example', API, false],
  ['api.cluster.example:6443', API, true],
  ['api.cluster.example:443', API, false],
  ['cluster.example:443', 'https://api.cluster.example', true],
  ['10.0.0.0/8', 'https://10.1.2.3:6443', true],
  ['10.0.0.0/8', 'https://11.1.2.3:6443', false],
  ['10.0.0.0/8', API, false],
  ['10.1.2.3', 'https://10.1.2.3:6443', true],
  ['10.1.2.3:6443', 'https://10.1.2.3:6443', true],
  ['10.1.2.3:443', 'https://10.1.2.3:6443', false],
  ['2.3', 'https://10.1.2.3:6443', false],
  ['2001:db8::1', 'https://[2001:db8::1]:6443', true],
  ['[2001:db8::1]:6443', 'https://[2001:db8::1]:6443', true],
  ['2001:db8::/32', 'https://[2001:db8::1]:6443', true],
  ['2001:db9::/32', 'https://[2001:db8::1]:6443', false],
  [' , ,', API, false],
])('NO_PROXY=%s and %s: direct is %s', (none, url, direct) => {
  expect(chosen(url, { HTTPS_PROXY: PROXY, NO_PROXY: none })).toBe(direct ? undefined : PROXY);
});

test.each([
  ['http://proxy:3128', 'http:'],
  ['https://proxy', 'https:'],
  ['socks5://proxy:1080', 'socks5:'],
  ['proxy:3128', 'http:'],
  ['ftp://proxy', undefined],
  ['http://', undefined],
])('proxy-url %s', (text, protocol) => {
  expect(parseProxyUrl(text)?.protocol).toBe(protocol);
});
