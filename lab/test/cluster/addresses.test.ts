import { describe, expect, test } from '@jest/globals';
import { cidrContains, cidrsOverlap, parseCidr } from '../../../src/base/cidr.ts';
import { parseIp } from '../../../src/base/ip.ts';
import { PLANS, apiServer, each, nodeIndexes } from '../../cluster/addresses.ts';

const cidr = (text: string): NonNullable<ReturnType<typeof parseCidr>> => {
  const parsed = parseCidr(text);
  if (parsed === undefined) throw new Error(`${text} is no CIDR`);
  return parsed;
};
const contains = (network: string, address: string): boolean => {
  const parsed = parseIp(address);
  return parsed !== undefined && cidrContains(cidr(network), parsed);
};

describe.each(['ipv4', 'ipv6'] as const)('addresses of the test cluster: %s', (family) => {
  const plan = PLANS[family];
  const nodes = nodeIndexes(9);

  test('the networks of nodes, Pods and Services do not overlap', () => {
    const [bridge, pods, services] = [`${plan.bridge}/${plan.prefix}`, plan.pods, plan.services].map(cidr);
    expect(cidrsOverlap(bridge!, pods!) || cidrsOverlap(bridge!, services!) || cidrsOverlap(pods!, services!)).toBe(
      false,
    );
  });

  test('nodes are on the network of the bridge, each with an address of its own', () => {
    const addresses = [plan.bridge, ...nodes.map((index) => plan.node(index))];
    expect(addresses.every((address) => contains(`${plan.bridge}/${plan.prefix}`, address))).toBe(true);
    expect(new Set(addresses).size).toBe(10);
  });

  test('each node has a part of the network of Pods to itself', () => {
    const parts = nodes.map((index) => cidr(plan.podsOf(index)));
    expect(parts.every((part) => cidrsOverlap(part, cidr(plan.pods)) && part.prefix > cidr(plan.pods).prefix)).toBe(
      true,
    );
    expect(parts.some((part, at) => parts.some((other, where) => at !== where && cidrsOverlap(part, other)))).toBe(
      false,
    );
  });

  test('default/kubernetes and CoreDNS have addresses of Services', () => {
    expect(contains(plan.services, plan.apiService)).toBe(true);
    expect(contains(plan.services, plan.dns)).toBe(true);
  });
});

test('the API server has an address of the first family', () => {
  expect(apiServer(['ipv4', 'ipv6'])).toBe('https://172.30.0.1:6443');
  expect(apiServer(['ipv6', 'ipv4'])).toBe('https://[fd00:30::1]:6443');
});

test('lists have the order of the families', () => {
  expect(each(['ipv6', 'ipv4'], (plan) => plan.services)).toBe('fd00:96::/112,10.96.0.0/16');
});
