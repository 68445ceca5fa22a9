import { METALLB_VERSION } from '../../programs.ts';
import { configure, withIpvsLine } from '../configuration.ts';
import type { TrialContext } from '../context.ts';
import { METALLB_NAMESPACE, METALLB_PROGRAMS, layer2Pool, metallbObjects } from '../metallb.ts';
import { imageForPrograms } from '../node-programs.ts';
import { SERVER_SELECTOR } from '../servers.ts';
import type { Trial } from '../trial.ts';

/** In the network of the nodes, so that clients ask for it by ARP. */
const POOL = '172.30.0.200-172.30.0.210';
const REQUESTS = 100;
/** The speakers tell one another by gossip that one is away. */
const TAKEN_OVER_SECONDS = 60;

/** MetalLB announces a load balancer IP by ARP, and the nodes that do not announce it must be silent. */
export const metallb: Trial = {
  name: 'metallb',
  what:
    `MetalLB ${METALLB_VERSION} in layer 2 mode with strictARP: its address asked from outside with each ` +
    'externalTrafficPolicy; then the speaker of the announcing node ended for good',
  proxies: ['ours', 'kube-proxy-ipvs'],
  limits: { failed: 0, cut: 0 },
  programs: METALLB_PROGRAMS,
  async run(context) {
    context.step('strictARP');
    const before = await configure(context, withIpvsLine('strictARP: true'));
    context.step('MetalLB starts');
    await install(context);
    try {
      for (const policy of ['Cluster', 'Local'] as const) await askThrough(context, policy);
      await moveAnnouncement(context);
    } finally {
      await context.kubectl(['delete', 'namespace', METALLB_NAMESPACE, '--timeout=120s']);
      await configure(context, () => before);
    }
  },
};

async function install(context: TrialContext): Promise<void> {
  const image = await imageForPrograms(context);
  await context.kubectl(
    ['apply', '--server-side', '--filename=-'],
    JSON.stringify({ apiVersion: 'v1', kind: 'List', items: await metallbObjects(context, image) }),
  );
  await context.rollout('deployment/controller', METALLB_NAMESPACE);
  await context.rollout('daemonset/speaker', METALLB_NAMESPACE);
  await context.apply(layer2Pool(POOL));
}

async function askThrough(context: TrialContext, externalTrafficPolicy: 'Cluster' | 'Local'): Promise<void> {
  const name = `announced-${externalTrafficPolicy.toLowerCase()}`;
  context.step(`a Service of type LoadBalancer with externalTrafficPolicy ${externalTrafficPolicy}`);
  await context.apply([loadBalancer(context.namespace, name, externalTrafficPolicy)]);
  const address = await addressOf(context, name);
  const node = await announcerOf(context, name);
  await context.until(`${address} answers`, TAKEN_OVER_SECONDS, () => answers(context, address));
  const { failed, seenBy } = await ask(context, address);
  context.check(`${REQUESTS} requests to ${address} are answered (${failed} are not)`, failed === 0);
  context.check(`only ${node}, which announces it, answers ARP for it (${seenBy.join(', ')})`, seenBy.join() === node);
}

async function moveAnnouncement(context: TrialContext): Promise<void> {
  const name = 'announced-cluster';
  const address = await addressOf(context, name);
  const before = await announcerOf(context, name);
  context.step(`the speaker on ${before} ends for good`);
  const away = [{ key: 'kubernetes.io/hostname', operator: 'NotIn', values: [before] }];
  const nodeAffinity = {
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: away }] },
  };
  const change = JSON.stringify({ spec: { template: { spec: { affinity: { nodeAffinity } } } } });
  await context.kubectl([`--namespace=${METALLB_NAMESPACE}`, 'patch', 'daemonset/speaker', `--patch=${change}`]);
  const seconds = await context.until('another node announces it', TAKEN_OVER_SECONDS, async () => {
    return (await announcerOf(context, name)) !== before;
  });
  context.measure('from the end of the speaker until another node announces the address', `${seconds} s`);
  const after = await announcerOf(context, name);
  await context.until(`${address} answers`, TAKEN_OVER_SECONDS, () => answers(context, address));
  const { failed, seenBy } = await ask(context, address);
  context.check(`${REQUESTS} requests to ${address} on ${after} are answered (${failed} are not)`, failed === 0);
  context.check(`only ${after} answers ARP for it (${seenBy.join(', ')})`, seenBy.join() === after);
}

function loadBalancer(namespace: string, name: string, externalTrafficPolicy: string): unknown {
  const [key = '', value = ''] = SERVER_SELECTOR.split('=');
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace },
    spec: {
      type: 'LoadBalancer',
      externalTrafficPolicy,
      allocateLoadBalancerNodePorts: false,
      selector: { [key]: value },
      ports: [{ port: 80, targetPort: 8080 }],
    },
  };
}

async function addressOf(context: TrialContext, name: string): Promise<string> {
  let address = '';
  await context.until(`${name} has an address`, TAKEN_OVER_SECONDS, async () => {
    address = await context.own(['get', 'service', name, '--output=jsonpath={.status.loadBalancer.ingress[0].ip}']);
    return address !== '';
  });
  return address;
}

/** The node that MetalLB says it announces the Service from. */
async function announcerOf(context: TrialContext, service: string): Promise<string> {
  let node = '';
  await context.until(`${service} is announced`, TAKEN_OVER_SECONDS, async () => {
    const list = `--output=jsonpath={range .items[?(@.status.serviceName=="${service}")]}{.status.node}{end}`;
    node = await context.kubectl([`--namespace=${METALLB_NAMESPACE}`, 'get', 'servicel2statuses.metallb.io', list]);
    return node !== '';
  });
  return node;
}

async function answers(context: TrialContext, address: string): Promise<boolean> {
  await forget(context, address);
  const { status } = await context.hostResult(['curl', '-sf', '-m', '2', `http://${address}/hostname`]);
  return status === 0;
}

/** Asks the address from outside of the nodes. Each request needs an answer to ARP. */
async function ask(
  context: TrialContext,
  address: string,
): Promise<{ readonly failed: number; readonly seenBy: readonly string[] }> {
  const cards = new Set<string>();
  let failed = 0;
  for (let request = 0; request < REQUESTS; request += 1) {
    await forget(context, address);
    const { status } = await context.hostResult(['curl', '-sf', '-m', '5', `http://${address}/hostname`]);
    if (status !== 0) failed += 1;
    const [, card] = /lladdr (\S+)/.exec((await context.hostResult(['ip', 'neighbour', 'show', address])).stdout) ?? [];
    if (card !== undefined) cards.add(card);
  }
  return { failed, seenBy: await Promise.all([...cards].map((card) => nodeOf(context, card))) };
}

async function forget(context: TrialContext, address: string): Promise<void> {
  await context.hostResult(['ip', 'neighbour', 'flush', 'to', address]);
}

/** Nodes have cards of the form 02:00:00:00:00:0N. */
async function nodeOf(context: TrialContext, card: string): Promise<string> {
  for (const { name } of context.state.nodes) {
    if ((await context.node(name, 'cat /sys/class/net/vec0/address')).trim() === card) return name;
  }
  return card;
}
