import { apiServer } from '../../addresses.ts';
import type { TrialContext } from '../context.ts';
import { restart } from '../../control.ts';
import { OurPods } from '../our-pods.ts';
import { awaitServed, serviceOf } from '../probe-service.ts';
import type { Trial } from '../trial.ts';

/** The shortest lifetime that Kubernetes allows. */
const LIFETIME_SECONDS = 600;
/** How long an expired token is still accepted, and some time more. */
const LEEWAY_SECONDS = 90;
const VOLUME = 'short-token';

/** A watch may outlive the token that it was opened with. */
export const tokenRotated: Trial = {
  name: 'token-rotated',
  what: `the token of the ServiceAccount lives ${LIFETIME_SECONDS} s; after its end, every watch is opened again`,
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const ours = new OurPods(context);
    context.step(`a rolling update: the token of our Pods lives ${LIFETIME_SECONDS} s`);
    await ours.patchDaemonSet({ spec: { template: { spec: shortToken() } } });
    try {
      await ours.awaitRollOut();
      await outlive(context, ours);
    } finally {
      await context.kubectl(['--namespace=kube-system', 'rollout', 'undo', 'daemonset/kube-ipvs-proxy']);
      await ours.awaitRollOut();
    }
  },
};

async function outlive(context: TrialContext, ours: OurPods): Promise<void> {
  const begin = Date.now();
  const [{ name: node } = { name: '' }] = context.state.nodes;
  const first = await tokenOn(context, node);
  context.check('the API server accepts the first token', (await statusWith(context, first)) === '200');
  await context.until('the token is rotated', LIFETIME_SECONDS, async () => (await tokenOn(context, node)) !== first);
  context.measure('until the token was another one', `${Math.round((Date.now() - begin) / 1000)} s`);
  await context.wait(Math.max(0, LIFETIME_SECONDS + LEEWAY_SECONDS - (Date.now() - begin) / 1000));
  context.check('the API server refuses the first token', (await statusWith(context, first)) === '401');
  context.step('the API server is restarted: every watch is opened with the new token');
  const restarted = Date.now();
  await restart(context.state, 'kube-apiserver');
  await context.apply(await serviceOf(context, 'new-token'));
  await awaitServed(context, 'new-token', 60);
  const log = await ours.logs(restarted);
  context.check('the log has no refusal', !log.includes('rejected our credentials'));
}

/** Takes the place of the token that every Pod gets, which lives longer. */
function shortToken(): object {
  const sources = [
    { serviceAccountToken: { path: 'token', expirationSeconds: LIFETIME_SECONDS } },
    { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
  ];
  const mountPath = '/var/run/secrets/kubernetes.io/serviceaccount';
  const volumeMounts = [{ name: VOLUME, mountPath, readOnly: true }];
  return {
    containers: [{ name: 'kube-ipvs-proxy', volumeMounts }],
    volumes: [{ name: VOLUME, projected: { sources } }],
  };
}

function tokenOn(context: TrialContext, node: string): Promise<string> {
  return context.node(node, `cat /var/lib/kubelet/pods/*/volumes/kubernetes.io~projected/${VOLUME}/token`);
}

/** The HTTP status of a list of Services with this token. */
function statusWith(context: TrialContext, token: string): Promise<string> {
  const url = `${apiServer(context.state.families)}/api/v1/services?limit=1`;
  const argv = ['curl', '-sk', '-o', '/dev/null', '-w', '%{http_code}', '-H', `Authorization: Bearer ${token}`, url];
  return context.host(argv);
}
