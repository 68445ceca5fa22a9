import type { TrialContext } from '../context.ts';
import { primary } from '../../addresses.ts';
import { renewApiServerCertificate, restart } from '../../control.ts';
import { apiServerAway } from '../api-server-away.ts';
import { checkFreshStart } from '../node-state.ts';
import { OurPods } from '../our-pods.ts';
import { awaitServed, serviceOf } from '../probe-service.ts';
import type { Trial } from '../trial.ts';

const KUBECONFIG = 'kubeconfig.conf';
const API_PORT = 6443;
/** How long the API server is away while ours start. */
const AWAY_SECONDS = 20;

/** The daemon reaches the API server only by an address that it serves itself. */
export const apiServerBehindService: Trial = {
  name: 'api-server-behind-service',
  what: 'the API server reached by an address that ours serves (ClusterIP, load balancer IP), all of ours restarted at once',
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const ours = new OurPods(context);
    const map = await ours.configMap();
    const before = await ours.configFile(map, KUBECONFIG);
    const setServer = async (server: string): Promise<void> => {
      const after = before.replace(/server: .*/, `server: ${server}`);
      await ours.patch(`configmap/${map}`, { data: { [KUBECONFIG]: after } });
      await ours.rollOut();
    };
    try {
      const { apiService } = primary(context.state.families);
      context.step(`the server of our kubeconfig is the ClusterIP of default/kubernetes, ${apiService}`);
      await setServer(urlOf(apiService, 443));
      await restartAll(context, ours, 'ClusterIP');
      const address = await exposeApiServer(context);
      context.step(`the server of our kubeconfig is the load balancer IP ${address}`);
      await setServer(urlOf(address, API_PORT));
      await restartAll(context, ours, 'load balancer IP');
      await checkFreshStart(context, ours);
    } finally {
      await ours.patch(`configmap/${map}`, { data: { [KUBECONFIG]: before } });
      await ours.rollOut();
    }
  },
};

async function restartAll(context: TrialContext, ours: OurPods, address: string): Promise<void> {
  const name = `by-${address.toLowerCase().replaceAll(' ', '-')}`;
  context.step(`by ${address}: all of ours are deleted at once`);
  context.measure(`by ${address}: until all are ready after they were deleted`, `${await ours.replaceAll()} s`);
  context.step(`by ${address}: all of ours are killed at once`);
  context.measure(`by ${address}: until all are ready after they were killed`, `${await ours.killAll()} s`);
  context.step(`by ${address}: all of ours are deleted, and the API server is away for ${AWAY_SECONDS} s`);
  await ours.deleteAll();
  const ready = await apiServerAway(context, { seconds: AWAY_SECONDS, signal: 'KILL' });
  await ours.awaitAll();
  await context.apply(await serviceOf(context, name));
  await awaitServed(context, name, 90);
  const seconds = `${(Date.now() - ready) / 1000} s`;
  context.measure(`by ${address}: from the ready API server until every node serves a new Service`, seconds);
}

/** Gives the API server a load balancer IP, for which its certificate is valid. Returns the address. */
async function exposeApiServer(context: TrialContext): Promise<string> {
  const { state, namespace } = context;
  const { bridge } = primary(state.families);
  const address = bridge.includes(':') ? 'fd00:30::200' : '172.30.0.200';
  context.step(`the API server gets the load balancer IP ${address}, and a certificate for it`);
  await renewApiServerCertificate(state, [address]);
  await restart(state, 'kube-apiserver');
  const metadata = { name: 'api-server', namespace };
  await context.apply([
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { type: 'LoadBalancer', ports: [{ port: API_PORT }] } },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': metadata.name } },
      addressType: bridge.includes(':') ? 'IPv6' : 'IPv4',
      endpoints: [{ addresses: [bridge], conditions: { ready: true } }],
      ports: [{ port: API_PORT, protocol: 'TCP' }],
    },
  ]);
  const patch = `--patch=${JSON.stringify({ status: { loadBalancer: { ingress: [{ ip: address }] } } })}`;
  await context.own(['patch', 'service', metadata.name, '--subresource=status', patch]);
  const url = `${urlOf(address, API_PORT)}/livez`;
  for (const { name } of state.nodes) {
    await context.until(`${name} reaches ${url}`, 30, async () => {
      return (await context.nodeResult(name, `curl -sf -m 2 --cacert /cluster/node/ca.crt ${url}`)).status === 0;
    });
  }
  return address;
}

function urlOf(address: string, port: number): string {
  return `https://${address.includes(':') ? `[${address}]` : address}:${port}`;
}
