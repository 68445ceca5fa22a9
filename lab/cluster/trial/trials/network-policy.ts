import { KUBE_ROUTER_VERSION } from '../../programs.ts';
import { configure, withIpvsLine } from '../configuration.ts';
import type { TrialContext } from '../context.ts';
import { KUBE_ROUTER_NAMESPACE, kubeRouterObjects } from '../kube-router.ts';
import { DEPLOYMENT } from '../servers.ts';
import type { Trial } from '../trial.ts';

const GUARDED = 'guarded';
const PORT = 8080;
/** From each Pod, so that each server is asked: there are as many as nodes. */
const REQUESTS = 12;
/** kube-router writes its rules when it sees the policy, and in each sync period anew. */
const IN_FORCE_SECONDS = 120;

/** kube-router's policies are rules that packets of IPVS pass in chain OUTPUT, and others in FORWARD. */
export const networkPolicy: Trial = {
  name: 'network-policy',
  what:
    `kube-router ${KUBE_ROUTER_VERSION} for network policies only: a Service whose servers a policy opens to some Pods, asked ` +
    'by these and by others from each node, before the policy, with it, while the proxy restarts, and after it',
  proxies: ['ours', 'ours-nftables', 'ours-iptables', 'kube-proxy-ipvs'],
  limits: { failed: 0, cut: 0 },
  programs: ['kube-router'],
  async run(context) {
    context.step('servers, clients and kube-router start');
    const image = await context.own(['get', DEPLOYMENT, '--output=jsonpath={.spec.template.spec.containers[0].image}']);
    await context.apply([server(context.namespace, image), service(context.namespace), ...clients(context, image)]);
    await context.rollout(`daemonset/${GUARDED}`);
    await context.own(['wait', 'pod', '--selector=app=asking', '--for=condition=Ready', '--timeout=120s']);
    await context.apply(await kubeRouterObjects(context));
    try {
      await context.rollout('daemonset/kube-router', KUBE_ROUTER_NAMESPACE);
      await check(context, 'without a policy', REQUESTS);
      context.step('a policy that opens the servers to Pods with a label');
      await context.apply([policy(context.namespace)]);
      const seconds = await context.until('the policy is in force', IN_FORCE_SECONDS, () => isClosed(context));
      context.measure('from the policy until other Pods are refused on every node', `${seconds} s`);
      await check(context, 'with the policy', 0);
      context.step('the service proxy restarts with another sync period');
      const before = await configure(context, withIpvsLine('syncPeriod: 17s'));
      await check(context, 'after a restart of the service proxy', 0);
      await configure(context, () => before);
      context.step('the policy is deleted');
      await context.own(['delete', 'networkpolicy', GUARDED]);
      await context.until('the policy is gone', IN_FORCE_SECONDS, async () => !(await isClosed(context)));
      await check(context, 'after the policy', REQUESTS);
    } finally {
      await context.kubectl([
        `--namespace=${KUBE_ROUTER_NAMESPACE}`,
        'delete',
        'daemonset/kube-router',
        '--timeout=120s',
      ]);
      for (const { name } of context.state.nodes) await context.node(name, CLEAN_UP);
    }
  },
};

/** kube-router's own clean-up would flush IPVS. */
const CLEAN_UP = "iptables-save | grep -vE 'KUBE-(ROUTER|POD-FW|NWPLCY)' | iptables-restore -w 10";

/** @param toOthers how many requests of a Pod without the label are answered */
async function check(context: TrialContext, when: string, toOthers: number): Promise<void> {
  for (const { name: node } of context.state.nodes) {
    for (const [kind, expected] of [
      ['allowed', REQUESTS],
      ['other', toOthers],
    ] as const) {
      const answered = await ask(context, `${kind}-${node}`, REQUESTS);
      const claim = `${answered} of ${REQUESTS} requests of the ${kind} Pod on ${node} are answered ${when}`;
      context.check(claim, answered === expected);
    }
  }
}

async function isClosed(context: TrialContext): Promise<boolean> {
  const answered = await Promise.all(context.state.nodes.map(({ name }) => ask(context, `other-${name}`, REQUESTS)));
  return answered.every((count) => count === 0);
}

/** Asks the Service by its ClusterIP. Returns how many requests were answered. */
async function ask(context: TrialContext, pod: string, requests: number): Promise<number> {
  const address = await context.own(['get', 'service', GUARDED, '--output=jsonpath={.spec.clusterIP}']);
  const request = `curl -s -o /dev/null -m 2 -w '%{http_code}\\n' http://${address}/hostname`;
  const loop = `for i in $(seq ${requests}); do ${request}; done; true`;
  const codes = await context.own(['exec', pod, '--', 'sh', '-c', loop]);
  return codes.split('\n').filter((code) => code === '200').length;
}

function server(namespace: string, image: string): unknown {
  const labels = { app: GUARDED };
  const command = ['/agnhost', 'netexec', `--http-port=${PORT}`];
  const readinessProbe = { httpGet: { path: '/healthz', port: PORT }, periodSeconds: 2, timeoutSeconds: 5 };
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: GUARDED, namespace },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          automountServiceAccountToken: false,
          containers: [{ name: 'netexec', image, imagePullPolicy: 'IfNotPresent', command, readinessProbe }],
        },
      },
    },
  };
}

function service(namespace: string): unknown {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: GUARDED, namespace },
    spec: { selector: { app: GUARDED }, ports: [{ port: 80, targetPort: PORT }] },
  };
}

/** On each node a Pod with the label that the policy asks for, and one without. */
function clients({ namespace, state }: TrialContext, image: string): readonly unknown[] {
  return state.nodes.flatMap(({ name: node }) =>
    [
      { kind: 'allowed', labels: { app: 'asking', access: 'yes' } },
      { kind: 'other', labels: { app: 'asking' } },
    ].map(({ kind, labels }) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: `${kind}-${node}`, namespace, labels },
      spec: {
        nodeName: node,
        automountServiceAccountToken: false,
        terminationGracePeriodSeconds: 1,
        containers: [{ name: 'pause', image, imagePullPolicy: 'IfNotPresent', command: ['/agnhost', 'pause'] }],
      },
    })),
  );
}

function policy(namespace: string): unknown {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: GUARDED, namespace },
    spec: {
      podSelector: { matchLabels: { app: GUARDED } },
      policyTypes: ['Ingress'],
      ingress: [{ from: [{ podSelector: { matchLabels: { access: 'yes' } } }] }],
    },
  };
}
