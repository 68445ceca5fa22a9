import { PLANS } from '../../addresses.ts';
import { COREDNS_VERSION } from '../../programs.ts';
import { configure, withIpvsLine } from '../configuration.ts';
import type { TrialContext } from '../context.ts';
import { SERVER_SELECTOR, SERVICES } from '../servers.ts';
import type { Trial } from '../trial.ts';

const NAME = 'node-local-dns';
const ADDRESS = '169.254.20.10';
const LOOKUPS = 200;

/**
 * NodeLocal DNSCache is CoreDNS with a plugin that makes an interface with the link-local address, and rules that exempt it
 * from connection tracking. Its module cannot be had, so that the trial makes both itself.
 */
export const nodeLocalDns: Trial = {
  name: 'node-local-dns',
  what:
    'a name server on a link-local address of each node, as NodeLocal DNSCache has it: an interface of its own, no ' +
    "connection tracking, queries passed on to kube-dns' ClusterIP; asked by a Pod on each node while the proxy restarts",
  proxies: ['ours', 'kube-proxy-ipvs'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    context.step('the name servers start');
    for (const { name } of context.state.nodes) await context.node(name, PREPARATION);
    try {
      await context.apply([configMap(context.namespace), daemonSet(context.namespace)]);
      await context.rollout(`daemonset/${NAME}`);
      await lookUp(context, 'while nothing else is done');
      context.step('queries while the service proxy restarts with another sync period');
      const [before] = await Promise.all([
        configure(context, withIpvsLine('syncPeriod: 17s')),
        lookUp(context, 'while the service proxy restarts'),
      ]);
      await configure(context, () => before);
    } finally {
      for (const { name } of context.state.nodes) await context.node(name, CLEAN_UP);
    }
  },
};

const RULES = ['udp', 'tcp'].flatMap((protocol) => [
  `raw PREROUTING -d ${ADDRESS}/32 -p ${protocol} --dport 53 -j CT --notrack`,
  `raw OUTPUT -d ${ADDRESS}/32 -p ${protocol} --dport 53 -j CT --notrack`,
  `raw OUTPUT -s ${ADDRESS}/32 -p ${protocol} --sport 53 -j CT --notrack`,
  `filter INPUT -d ${ADDRESS}/32 -p ${protocol} --dport 53 -j ACCEPT`,
  `filter OUTPUT -s ${ADDRESS}/32 -p ${protocol} --sport 53 -j ACCEPT`,
]);

function rules(operation: '-A' | '-D'): readonly string[] {
  return RULES.map((rule) => `iptables -w -t ${rule.replace(' ', ` ${operation} `)}`);
}

const PREPARATION = [
  'ip link add nodelocaldns type dummy',
  `ip address add ${ADDRESS}/32 dev nodelocaldns`,
  ...rules('-A'),
].join(' && ');

const CLEAN_UP = [...rules('-D'), 'ip link delete nodelocaldns'].join('; ');

function configMap(namespace: string): unknown {
  const Corefile = `.:53 {
    errors
    bind ${ADDRESS}
    forward . ${PLANS.ipv4.dns} {
        force_tcp
    }
}
`;
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: NAME, namespace }, data: { Corefile } };
}

function daemonSet(namespace: string): unknown {
  const labels = { app: NAME };
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: NAME, namespace },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          hostNetwork: true,
          dnsPolicy: 'Default',
          containers: [
            {
              name: 'coredns',
              image: `registry.k8s.io/coredns/coredns:v${COREDNS_VERSION}`,
              imagePullPolicy: 'IfNotPresent',
              args: ['-conf', '/etc/coredns/Corefile'],
              volumeMounts: [{ name: 'config', mountPath: '/etc/coredns' }],
            },
          ],
          volumes: [{ name: 'config', configMap: { name: NAME } }],
        },
      },
    },
  };
}

/** Asks from a server of the trial on each node. */
async function lookUp(context: TrialContext, when: string): Promise<void> {
  const address = await context.own(['get', 'service', SERVICES.cluster, '--output=jsonpath={.spec.clusterIP}']);
  const name = `${SERVICES.cluster}.${context.namespace}.svc.cluster.local`;
  const query = `dig +short +tries=1 +time=5 @${ADDRESS} ${name}`;
  const loop = `for i in $(seq ${LOOKUPS}); do [ $((i % 4)) = 0 ] && tcp=+tcp || tcp=; ${query} $tcp; done`;
  const servers = await context.pods(SERVER_SELECTOR);
  await Promise.all(
    context.state.nodes.map(async ({ name: node }) => {
      const pod = servers.find((each) => each.node === node && each.ready);
      const lines = (await context.own(['exec', pod?.name ?? '', '--', 'sh', '-c', loop])).split('\n');
      const answered = lines.filter((line) => line === address).length;
      context.check(`${answered} of ${LOOKUPS} queries of a Pod on ${node} are answered ${when}`, answered === LOOKUPS);
    }),
  );
}
