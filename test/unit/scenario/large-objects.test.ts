import { describe, expect, test } from '@jest/globals';
import { runOnPlan } from '../../scenario/plan-run.ts';
import { parseScenario } from '../../scenario/scenario-file.ts';

/** What would be too large a file to keep: the same format, written here. */
async function outcome(name: string, text: string): Promise<string> {
  return (await runOnPlan(parseScenario(name, `# Generated.\n${text}`), 'ipvs')).join('\n');
}

function service(name: string, address: string, ports: string): string {
  return `---
apiVersion: v1
kind: Service
metadata: { name: ${name} }
spec: { clusterIP: ${address}, ports: [${ports}] }
`;
}

function slice(name: string, owner: string, addresses: readonly string[]): string {
  const endpoints = addresses.map((address) => `  - { addresses: [${address}], nodeName: node-1 }\n`);
  return `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}, labels: { kubernetes.io/service-name: ${owner} } }
addressType: IPv4
ports: [{ name: "", port: 8080 }]
endpoints:
${endpoints.join('')}`;
}

function range<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

const SHOP = service('shop', '10.202.0.20', '{ port: 80 }') + slice('shop-1', 'shop', ['10.201.1.10']);
const SHOP_LINE = 'TCP 10.202.0.20:80 rr -> 10.201.1.10:8080';

describe('large objects', () => {
  test('a Service with 10,000 endpoints has each of them once, and does not affect another Service', async () => {
    const addresses = range(10_000, (n) => `10.${100 + (n >> 12)}.${(n >> 4) & 255}.${(n & 15) + 1}`);
    // Neighbours overlap by one endpoint, as while a controller moves it.
    const slices = range(100, (n) => slice(`web-${n}`, 'web', addresses.slice(n * 100, n * 100 + 101))).join('');
    const servers = addresses.map((address) => `${address}:8080`).sort();
    const text = `-- objects --
${service('web', '10.202.0.10', '{ port: 80 }')}${slices}${SHOP}
-- virtual servers --
TCP 10.202.0.10:80 rr -> ${servers.join(', ')}
${SHOP_LINE}
-- warnings --
-- step: all of them gone --
delete: Service default/web
-- virtual servers --
${SHOP_LINE}
`;
    expect(await outcome('10,000 endpoints', text)).toBe('');
  }, 60_000);

  test('a Service with 10,000 invalid endpoints causes one warning, and its valid one serves', async () => {
    const addresses = [...range(10_000, (n) => `10.201.0.${n + 256}`), '10.201.1.11'];
    const text = `-- objects --
${service('web', '10.202.0.10', '{ port: 80 }')}${slice('web-1', 'web', addresses)}${SHOP}
-- virtual servers --
TCP 10.202.0.10:80 rr -> 10.201.1.11:8080
${SHOP_LINE}
-- warnings --
invalid-address
`;
    expect(await outcome('10,000 bad endpoints', text)).toBe('');
  }, 60_000);

  test('a Service with 1,000 ports, half of them invalid, has the valid ones', async () => {
    const ports = range(1_000, (n) => `{ name: p${n}, port: ${n % 2 === 0 ? n + 1 : n + 70_000} }`).join(', ');
    const lines = range(500, (n) => `TCP 10.202.0.10:${2 * n + 1} rr -> none`).join('\n');
    const text = `-- objects --
${service('web', '10.202.0.10', ports)}${SHOP}
-- virtual servers --
${lines}
${SHOP_LINE}
-- warnings --
invalid-port
`;
    expect(await outcome('1,000 ports', text)).toBe('');
  }, 60_000);
});
