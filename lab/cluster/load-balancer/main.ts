// A load balancer for the test cluster: it gives addresses of a range to Services of type LoadBalancer, and routes them to
// nodes. It runs in the network namespace of the cluster: `node main.ts KUBECONFIG FAMILY[,FAMILY] NODES`.
import { setTimeout as sleep } from 'node:timers/promises';
import { CoreV1Api, KubeConfig, PatchStrategy, setHeaderOptions } from '@kubernetes/client-node';
import { runCommand } from '../../../test/bed/command.ts';
import { PLANS, nodeIndexes } from '../addresses.ts';
import type { Family } from '../settings.ts';
import { type Change, assign, changeLine } from './assign.ts';
import { type Target, deviceCommands, healthCheckPorts, routeCommands, routesOf } from './routes.ts';
import type { Service } from './service.ts';

const PERIOD_MS = 500;
const RANGE_SIZE = 250;
const API_FAMILIES: Readonly<Record<Family, string>> = { ipv4: 'IPv4', ipv6: 'IPv6' };

const [kubeconfig = '', familyList = '', nodes = ''] = process.argv.slice(2);
const families = familyList.split(',') as Family[];
const config = new KubeConfig();
config.loadFromFile(kubeconfig);
const api = config.makeApiClient(CoreV1Api);
const mergePatch = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);

const addresses = Object.fromEntries(
  families.map((family) => [
    API_FAMILIES[family],
    Array.from({ length: RANGE_SIZE }, (_, at) => PLANS[family].loadBalancer(at + 1)),
  ]),
);
const range = new Set(Object.values(addresses).flat());

async function ip(commands: readonly string[]): Promise<void> {
  await runCommand(['ip', '-batch', '-'], { input: `${commands.join('\n')}\n` });
  process.stdout.write(`${commands.join('\n')}\n`);
}

async function write({ service, finalizers, addresses: ips }: Change): Promise<void> {
  const { name, namespace } = service.metadata;
  // Held before it has an address, released after it has lost it.
  const hold = async (): Promise<void> => {
    if (finalizers === undefined) return;
    await api.patchNamespacedService({ name, namespace, body: { metadata: { finalizers } } }, mergePatch);
  };
  if (ips === undefined || ips.length > 0) await hold();
  if (ips !== undefined) {
    const ingress = ips.length === 0 ? null : ips.map((ip) => ({ ip }));
    const body = { status: { loadBalancer: { ingress } } };
    await api.patchNamespacedServiceStatus({ name, namespace, body }, mergePatch);
    if (ips.length === 0) await hold();
  }
}

async function targetOf(index: number, ports: readonly number[]): Promise<Target> {
  const own = families.map((family) => PLANS[family].node(index));
  const host = own[0]?.includes(':') === true ? `[${own[0]}]` : own[0];
  const healthy = new Set<number>();
  for (const port of ports) {
    const answer = await fetch(`http://${host}:${port}/healthz`, { signal: AbortSignal.timeout(1000) }).catch(
      () => undefined,
    );
    if (answer?.status === 200) healthy.add(port);
  }
  return { addresses: own, healthy: (port) => healthy.has(port) };
}

let routes: ReadonlyMap<string, readonly string[]> = new Map();

async function round(): Promise<void> {
  // The API server's JSON has these fields in this form; the client's types have all of them as optional.
  const services = (await api.listServiceForAllNamespaces()).items as unknown as readonly Service[];
  for (const change of assign(services, addresses)) {
    await write(change);
    process.stdout.write(`${changeLine(change)}\n`);
  }
  const ports = healthCheckPorts(services);
  const targets = await Promise.all(nodeIndexes(Number(nodes)).map((index) => targetOf(index, ports)));
  const wanted = routesOf(services, (address) => range.has(address), targets);
  const commands = routeCommands(routes, wanted);
  if (commands.length > 0) await ip(commands);
  routes = wanted;
}

await ip(deviceCommands(families));
for (;;) {
  await round().catch((error: unknown) => process.stdout.write(`${String(error)}\n`));
  await sleep(PERIOD_MS);
}
