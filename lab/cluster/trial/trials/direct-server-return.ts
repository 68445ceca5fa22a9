import { primary } from '../../addresses.ts';
import { configure } from '../configuration.ts';
import type { TrialContext } from '../context.ts';
import { OurPods } from '../our-pods.ts';
import { SERVER_SELECTOR } from '../servers.ts';
import type { Trial } from '../trial.ts';

const CONTAINER = 'kube-ipvs-proxy';
const NAME = 'direct';
const PORT = 8080;
/** Routed to the first node from outside. */
const ADDRESS = '203.0.113.10';
const LABEL = 'trial/forwarding';
const METHODS = ['tunnel', 'tunnel-gue', 'tunnel-gre'] as const;
const REQUESTS = 40;
const IN_FORCE_SECONDS = 60;
/** A login on a node takes time of its one processor, which the servers there need. */
const PAUSE_SECONDS = 3;

/** Operators choose the forwarding of a Service by its labels, and the daemons prepare the Pods that answer. */
export const directServerReturn: Trial = {
  name: 'direct-server-return',
  what:
    `a Service forwarded without NAT, by ${METHODS.join(', ')} in turn: by the operator's defaults for its labels, to Pods ` +
    'that the daemons prepare (--dsr-prepare-pods); then with NAT again',
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const ours = new OurPods(context);
    context.step('defaults for labels, and --dsr-prepare-pods');
    await ours.patchDaemonSet({ spec: { template: { spec: await preparing(context) } } });
    const before = await configure(context, (text) => `${text}---\n${defaults()}\n`);
    const route = `${ADDRESS}/32`;
    try {
      await context.host(['ip', 'route', 'add', route, 'via', primary(context.state.families).node(1)]);
      await context.apply([service(context.namespace)]);
      for (const method of METHODS) await serveBy(context, method);
      await serveTranslated(context);
    } finally {
      await context.hostResult(['ip', 'route', 'del', route]);
      await context.own(['delete', 'service', NAME, '--ignore-not-found']);
      await ours.patchDaemonSet({ spec: { template: { spec: await unprepared(context) } } });
      await configure(context, () => before);
    }
  },
};

/** The second document of the configuration file. */
function defaults(): string {
  const serviceDefaults = METHODS.map((method) => ({
    selector: { matchLabels: { [LABEL]: method } },
    annotations: { forwarding: method },
  }));
  return JSON.stringify({
    apiVersion: 'kube-ipvs-proxy/v1alpha1',
    kind: 'KubeIPVSProxyConfiguration',
    serviceDefaults,
  });
}

const FLAG = '--dsr-prepare-pods';
const VOLUME = 'netns';
const FOLDER = '/var/run/netns';

/** What manifests/components/prepare-pods adds. */
async function preparing(context: TrialContext): Promise<object> {
  const mount = { name: VOLUME, mountPath: FOLDER, mountPropagation: 'HostToContainer', readOnly: true };
  return {
    containers: [{ name: CONTAINER, args: [...(await argsOf(context)), FLAG], volumeMounts: [mount] }],
    volumes: [{ name: VOLUME, hostPath: { path: FOLDER, type: 'DirectoryOrCreate' } }],
  };
}

async function unprepared(context: TrialContext): Promise<object> {
  const args = (await argsOf(context)).filter((arg) => arg !== FLAG);
  return {
    containers: [{ name: CONTAINER, args, volumeMounts: [{ $patch: 'delete', mountPath: FOLDER }] }],
    volumes: [{ $patch: 'delete', name: VOLUME }],
  };
}

async function argsOf(context: TrialContext): Promise<readonly string[]> {
  const args = '--output=jsonpath={.spec.template.spec.containers[0].args}';
  const text = await context.kubectl(['--namespace=kube-system', 'get', `daemonset/${CONTAINER}`, args]);
  return JSON.parse(text) as readonly string[];
}

function service(namespace: string): unknown {
  const [key = '', value = ''] = SERVER_SELECTOR.split('=');
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: NAME, namespace },
    spec: { selector: { [key]: value }, externalIPs: [ADDRESS], ports: [{ port: PORT, targetPort: PORT }] },
  };
}

async function serveBy(context: TrialContext, method: (typeof METHODS)[number]): Promise<void> {
  context.step(method);
  await context.own(['label', '--overwrite', 'service', NAME, `${LABEL}=${method}`]);
  await untilForwarded(context, '-i');
  const pods = await context.endpoints();
  await context.until('all Pods answer', IN_FORCE_SECONDS, async () => (await ask(context)).failed === 0);
  const { failed, servers, clients } = await ask(context);
  const claims = [
    `${REQUESTS} requests are answered (${failed} are not)`,
    `by all of ${pods.length} Pods on ${context.state.nodes.length} nodes (${servers.size})`,
    `the Pods see the client's own address (${[...clients].join(', ')})`,
  ];
  const own = primary(context.state.families).bridge;
  context.check(
    `${method}: ${claims.join('; ')}`,
    failed === 0 && servers.size === pods.length && [...clients].join() === own,
  );
}

async function serveTranslated(context: TrialContext): Promise<void> {
  context.step('NAT again');
  await context.own(['label', 'service', NAME, `${LABEL}-`]);
  await untilForwarded(context, '-m');
  const { failed } = await ask(context);
  context.check(`with NAT, ${REQUESTS} requests are answered (${failed} are not)`, failed === 0);
  for (const { name } of context.state.nodes) {
    const list = 'for pod in $(ip netns list | cut -d" " -f1); do ip -n $pod -br link; ip -n $pod fou show; done';
    const seconds = await context.until(`nothing is left in the Pods of ${name}`, IN_FORCE_SECONDS, async () => {
      await context.wait(PAUSE_SECONDS);
      const { stdout } = await context.nodeResult(name, list);
      return !/kube-ipvs|gue/.test(stdout);
    });
    context.say(`nothing is left in the Pods of ${name} after ${seconds} s`);
  }
}

/** Waits until the node that clients ask has all real servers with this option of ipvsadm. */
async function untilForwarded(context: TrialContext, option: '-i' | '-m'): Promise<void> {
  const [{ name } = { name: '' }] = context.state.nodes;
  await context.until(`${name} forwards with ${option}`, IN_FORCE_SECONDS, async () => {
    await context.wait(PAUSE_SECONDS);
    const lines = (await context.node(name, 'ipvsadm -Sn')).split('\n');
    const servers = lines.filter((line) => line.startsWith(`-a -t ${ADDRESS}:`) && !line.includes(' -w 0'));
    return servers.length > 0 && servers.every((line) => line.includes(` ${option} `));
  });
}

interface Answers {
  readonly failed: number;
  readonly servers: ReadonlySet<string>;
  readonly clients: ReadonlySet<string>;
}

/** Asks from outside of the nodes: which Pod answers, and the address that it sees. */
async function ask(context: TrialContext): Promise<Answers> {
  const [servers, clients] = [new Set<string>(), new Set<string>()];
  let failed = 0;
  for (let request = 0; request < REQUESTS; request += 1) {
    // In halves, not in turn: the servers are chosen in turn.
    const path = request < REQUESTS / 2 ? 'hostname' : 'clientip';
    const url = `http://${ADDRESS}:${PORT}/${path}`;
    const { status, stdout } = await context.hostResult(['curl', '-sf', '-m', '5', url]);
    if (status !== 0) failed += 1;
    else if (path === 'hostname') servers.add(stdout.trim());
    else clients.add(stdout.trim().replace(/:\d+$/, ''));
  }
  return { failed, servers, clients };
}
