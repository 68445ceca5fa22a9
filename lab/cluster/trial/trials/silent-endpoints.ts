import { isOurs } from '../../e2e/results.ts';
import { start, startKubelet, stop, stopKubelet } from '../../control.ts';
import { BRIDGE, tap } from '../../network.ts';
import { configure } from '../configuration.ts';
import type { TrialContext } from '../context.ts';
import { awaitServing } from '../elsewhere.ts';
import type { Failure } from '../judge.ts';
import { DEPLOYMENT, SERVICES } from '../servers.ts';
import type { Trial } from '../trial.ts';
import { atNode, middleNode } from './node-targets.ts';

/** Something that silences endpoints, or only seems to. */
interface Event {
  readonly name: string;
  readonly what: string;
  /** How long it is watched. */
  readonly seconds: number;
  /** Which endpoints must be silent for the first node while it lasts. `most`: then all are used. */
  readonly silent?: 'those of the node' | 'most' | 'none';
  /** Connections that fail whatever a service proxy does. */
  readonly excepted: (context: TrialContext) => (failure: Failure) => boolean;
  readonly begin: (context: TrialContext) => Promise<unknown>;
  readonly end: (context: TrialContext) => Promise<unknown>;
}

const PORT = 8080;
const SERVERS = 6;
/** After that, a client counts a connection as failed. */
const TIME_LIMIT_SECONDS = 6;
/** Until traffic is as it was. */
const BACK_SECONDS = 300;

const ofNode = (context: TrialContext): ((failure: Failure) => boolean) => atNode(middleNode(context));

/** The client on the host reaches Services through the network that is gone. */
const ofHost = ({ client }: Failure): boolean => client === 'host';

const EVENTS: readonly Event[] = [
  {
    name: 'node-killed',
    what: 'a node of three loses its power',
    seconds: 60,
    silent: 'those of the node',
    excepted: ofNode,
    begin: (context) => stop(context.state, middleNode(context), 'KILL'),
    end: (context) => start(context.state, middleNode(context)),
  },
  {
    name: 'node-unplugged',
    what: 'the network of a node of three is unplugged for 30 s',
    seconds: 30,
    silent: 'those of the node',
    excepted: ofNode,
    begin: (context) => unplug(context, [2]),
    end: (context) => plugIn(context, [2]),
  },
  {
    name: 'switch-drops',
    what: 'the switch between three nodes drops everything for 5 s',
    seconds: 5,
    excepted: () => ofHost,
    begin: (context) => unplug(context, [1, 2, 3]),
    end: (context) => plugIn(context, [1, 2, 3]),
  },
  {
    name: 'zones-gone',
    what: 'two of three nodes, each a zone, are unplugged for 20 s: most endpoints are silent, so all are used',
    seconds: 20,
    silent: 'most',
    excepted: () => ofHost,
    begin: (context) => unplug(context, [2, 3]),
    end: (context) => plugIn(context, [2, 3]),
  },
  {
    name: 'kubelet-silent',
    what: 'the kubelet of a node of three is stopped for 30 s; its Pods go on',
    seconds: 30,
    silent: 'none',
    excepted: () => () => false,
    begin: (context) => stopKubelet(context.state, middleNode(context)),
    end: (context) => startKubelet(context.state, middleNode(context)),
  },
  {
    name: 'pod-frozen',
    what: 'a server is frozen for 15 s (SIGSTOP): the kernel goes on to accept its connections, so it counts as alive',
    seconds: 15,
    silent: 'none',
    excepted: () => () => false,
    begin: (context) => signalServer(context, 'STOP'),
    end: (context) => signalServer(context, 'CONT'),
  },
  {
    name: 'node-shut-out',
    what: 'a rule shuts out the other nodes, but not their Pods, from the servers of a node for 30 s, as a NetworkPolicy may',
    seconds: 30,
    silent: 'none',
    // Connections through other nodes come with the addresses of these, so the rule shuts them out.
    excepted: () => (failure) => failure.client === 'host' || failure.target.includes('NodePort'),
    begin: (context) => shutOut(context, '-I'),
    end: (context) => shutOut(context, '-D'),
  },
  {
    name: 'rolling-update-checked',
    what: 'a Deployment of 6 servers is rolled; each goes on serving for 15 s after its deletion',
    seconds: 60,
    silent: 'none',
    excepted: () => () => false,
    begin: (context) => context.own(['rollout', 'restart', DEPLOYMENT]),
    end: (context) => context.rollout(DEPLOYMENT),
  },
];

/** What happens to new connections when endpoints fall silent, without --ipvs-endpoint-check and with it. */
export const silentEndpoints: readonly Trial[] = EVENTS.map((event) => ({
  name: event.name,
  what: `${event.what}; first without --ipvs-endpoint-check, then with it`,
  proxies: ['ours', 'kube-proxy-ipvs'],
  limits: { failed: 0, cut: 0 },
  settings: ['NODES=3'],
  servers: { replicas: SERVERS },
  async run(context) {
    await observe(context, event, 'off');
    if (!isOurs(context.proxy)) return;
    context.step('the daemons start with endpointCheck: act');
    const before = await configure(context, withEndpointCheck);
    try {
      await annotate(context);
      await known(context);
      await observe(context, event, 'act');
    } finally {
      await configure(context, () => before);
    }
  },
}));

/** Plays the event, and counts the connections that fail until all is as before. */
async function observe(context: TrialContext, event: Event, check: 'off' | 'act'): Promise<void> {
  const excepted = event.excepted(context);
  await context.traffic.awaitClean(5, BACK_SECONDS);
  context.step(`${check}: ${event.name}`);
  const begin = Date.now();
  let end = Infinity;
  context.allow(
    `${check}: until all servers answer again`,
    (failure) => failure.at >= begin - 1000 && failure.at < end,
  );
  await event.begin(context);
  try {
    if (check === 'act') checkSilent(context, event, await watchSilent(context, event.seconds));
    else await context.wait(event.seconds);
    const seen = Date.now();
    await context.wait(TIME_LIMIT_SECONDS);
    const failures = context.traffic.failures(begin, seen).filter((failure) => !failure.cut && !excepted(failure));
    const last = Math.max(0, ...failures.map(({ at }) => at - begin));
    context.measure(`${check}: new connections that failed`, String(failures.length));
    if (failures.length > 0) context.measure(`${check}: the last of them after the event`, `${last / 1000} s`);
  } finally {
    context.step(`${check}: the end of ${event.name}`);
    await event.end(context);
  }
  await awaitServing(context, middleNode(context), BACK_SECONDS);
  await context.until('all endpoints are used', BACK_SECONDS, async () => (await unused(context)).length === 0);
  await context.traffic.awaitClean(5, BACK_SECONDS);
  end = Date.now();
}

/** What the first node found while the event lasted. */
interface Found {
  /** The most silent endpoints at a time; each is counted for both Services. */
  readonly mostSilent: number;
  /** Addresses without new connections at the end. */
  readonly unused: readonly string[];
}

async function watchSilent(context: TrialContext, seconds: number): Promise<Found> {
  const [{ name } = { name: '' }] = context.state.nodes;
  let mostSilent = 0;
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) {
    mostSilent = Math.max(mostSilent, await checkedEndpoints(context, name, 'silent'));
    await context.wait(0.5);
  }
  return { mostSilent, unused: await unused(context) };
}

function checkSilent(context: TrialContext, { silent }: Event, { mostSilent, unused }: Found): void {
  context.measure('act: silent endpoints, at most', String(mostSilent));
  if (silent === undefined) return;
  const claim = `act: ${silent} of the endpoints are silent`;
  if (silent === 'none') context.check(claim, mostSilent === 0);
  else if (silent === 'most') context.check(`${claim}, so all are used`, mostSilent > 0 && unused.length === 0);
  else context.check(claim, unused.length > 0 && unused.every((each) => each.startsWith(podsOf(1))));
}

/** The addresses of servers that have weight 0 on the first node. */
async function unused(context: TrialContext): Promise<readonly string[]> {
  const [{ name } = { name: '' }] = context.state.nodes;
  const lines = (await context.node(name, 'ipvsadm -Sn')).split('\n');
  const found = lines.map((line) => new RegExp(String.raw`-r (10\.244\.\S+):${PORT} .* -w 0$`).exec(line)?.[1] ?? '');
  return [...new Set(found.filter((address) => address !== ''))];
}

async function checkedEndpoints(context: TrialContext, node: string, state: string): Promise<number> {
  const metrics = await context.node(node, 'curl -s http://127.0.0.1:10249/metrics');
  return Number(
    new RegExp(String.raw`^kubeipvs_checked_endpoints\{state="${state}"\} (\d+)$`, 'm').exec(metrics)?.[1] ?? 0,
  );
}

function podsOf(index: number): string {
  return `10.244.${index + 1}.`;
}

function withEndpointCheck(text: string): string {
  if (text.includes('endpointCheck')) return text;
  const own = { apiVersion: 'kube-ipvs-proxy/v1alpha1', kind: 'KubeIPVSProxyConfiguration', endpointCheck: 'act' };
  return `${text.trimEnd()}\n---\n${JSON.stringify(own)}\n`;
}

async function annotate(context: TrialContext): Promise<void> {
  for (const service of Object.values(SERVICES)) {
    await context.own(['annotate', 'service', service, 'kube-ipvs-proxy/endpoint-check=true', '--overwrite']);
  }
}

/** Waits until each server has answered the nodes that stay: only such servers are judged. */
async function known(context: TrialContext): Promise<void> {
  const stay = context.state.nodes.filter(({ name }) => name !== middleNode(context));
  for (const { name } of stay) {
    await context.until(`the servers have answered ${name}`, 120, async () => {
      return (await checkedEndpoints(context, name, 'trusted')) >= SERVERS;
    });
  }
}

/** Takes nodes, by number, off the bridge. A tap device that is set down ends the network of a User-Mode Linux for good. */
async function unplug(context: TrialContext, nodes: readonly number[]): Promise<void> {
  for (const node of nodes) await context.host(['ip', 'link', 'set', tap(node), 'nomaster']);
}

async function plugIn(context: TrialContext, nodes: readonly number[]): Promise<void> {
  for (const node of nodes) await context.host(['ip', 'link', 'set', tap(node), 'master', BRIDGE]);
}

function signalServer(context: TrialContext, signal: 'STOP' | 'CONT'): Promise<string> {
  const server = `pgrep -o -f '^/agnhost netexec --http-port=${PORT}'`;
  return context.node(middleNode(context), `kill -${signal} $(${server})`);
}

async function shutOut(context: TrialContext, action: '-I' | '-D'): Promise<void> {
  const target = middleNode(context);
  for (const { name, addresses } of context.state.nodes) {
    if (name === target) continue;
    const rule = `-s ${addresses[0]} -d ${podsOf(1)}0/24 -p tcp --dport ${PORT} -j DROP`;
    await context.node(target, `iptables -w ${action} FORWARD ${rule}`);
  }
}
