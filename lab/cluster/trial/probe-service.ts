import type { TrialContext } from './context.ts';

const PORT = 8080;

/** A Service without a selector, whose EndpointSlice has the servers that are ready now. */
export async function serviceOf(context: TrialContext, name: string): Promise<readonly unknown[]> {
  const metadata = { name, namespace: context.namespace };
  const [family] = context.state.families;
  const addresses = (await context.endpoints()).filter(({ ready }) => ready).flatMap((each) => each.addresses);
  const first = addresses.filter((address) => address.includes(':') === (family === 'ipv6'));
  return [
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { ports: [{ port: 80, targetPort: PORT }] } },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': name } },
      addressType: family === 'ipv6' ? 'IPv6' : 'IPv4',
      endpoints: first.map((address) => ({ addresses: [address], conditions: { ready: true } })),
      ports: [{ port: PORT, protocol: 'TCP' }],
    },
  ];
}

export async function clusterIpOf(context: TrialContext, name: string): Promise<string> {
  return context.own(['get', 'service', name, '--output=jsonpath={.spec.clusterIP}']);
}

/** Waits until a connection to the ClusterIP of the Service is served on every node. */
export async function awaitServed(context: TrialContext, name: string, seconds: number): Promise<void> {
  const address = await clusterIpOf(context, name);
  await context.until(`every node serves the Service ${name}`, seconds, () => everyNode(context, address, true));
}

/** Waits until no node has a virtual server of this address. */
export async function awaitNotServed(context: TrialContext, address: string, seconds: number): Promise<void> {
  await context.until(`no node serves ${address}`, seconds, () => everyNode(context, address, false));
}

async function everyNode(context: TrialContext, address: string, served: boolean): Promise<boolean> {
  const host = address.includes(':') ? `[${address}]` : address;
  const commands = context.state.nodes.map(({ name }) =>
    served
      ? context.nodeResult(name, `curl -sf -m 2 http://${host}/hostname`)
      : context.nodeResult(name, `! ipvsadm -Sn | grep -F ' ${host}:80 '`),
  );
  return (await Promise.all(commands)).every(({ status }) => status === 0);
}
