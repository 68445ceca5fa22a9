import type { TrialContext } from '../context.ts';
import { apiServer } from '../../addresses.ts';
import { restart } from '../../control.ts';
import { checkFreshStart } from '../node-state.ts';
import { OurPods } from '../our-pods.ts';
import { awaitServed, serviceOf } from '../probe-service.ts';
import type { Trial } from '../trial.ts';

/** The shortest lifetime that Kubernetes allows. */
const LIFETIME_SECONDS = 600;
/** How long an expired token is still accepted, and some time more. */
const LEEWAY_SECONDS = 90;
const BINDING = 'clusterrolebinding/kube-ipvs-proxy';
const VOLUME = 'short-token';

export const tokenAndRole: Trial = {
  name: 'token-and-role',
  what: `a token that lives ${LIFETIME_SECONDS} s is rotated; then the ClusterRoleBinding is deleted and created again`,
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const ours = new OurPods(context);
    try {
      await rotateToken(context, ours);
      await takeRights(context, ours);
    } finally {
      await context.kubectl(['--namespace=kube-system', 'rollout', 'undo', 'daemonset/kube-ipvs-proxy']);
      await ours.awaitRollOut();
    }
    await checkFreshStart(context, ours);
  },
};

async function rotateToken(context: TrialContext, ours: OurPods): Promise<void> {
  context.step(`a rolling update: the token of our Pods lives ${LIFETIME_SECONDS} s`);
  await ours.patchDaemonSet({ spec: { template: { spec: shortToken() } } });
  await ours.awaitRollOut();
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

async function takeRights(context: TrialContext, ours: OurPods): Promise<void> {
  const binding = await context.kubectl(['get', BINDING, '--output=json']);
  const giveBack = async (): Promise<void> => {
    await context.kubectl(['apply', '--filename=-'], binding);
  };
  context.step('the ClusterRoleBinding is deleted and the API server restarted, which ends open watches');
  const taken = Date.now();
  await context.kubectl(['delete', BINDING]);
  try {
    await restart(context.state, 'kube-apiserver');
    await context.until('the log names the missing right', 90, async () =>
      (await ours.logs(taken)).includes('not allowed to list and watch services (403'),
    );
    context.measure('until the log names the missing right', `${(Date.now() - taken) / 1000} s`);
    await context.wait(20);
  } finally {
    await giveBack();
  }
  context.step('the ClusterRoleBinding is back');
  const given = Date.now();
  await context.apply(await serviceOf(context, 'new-right'));
  await awaitServed(context, 'new-right', 90);
  context.measure('until every node serves a new Service again', `${(Date.now() - given) / 1000} s`);
  const log = await ours.logs(given);
  context.check('the log says that it is over', log.includes('watch on services re-established'));

  context.step('the ClusterRoleBinding is deleted and all of ours are restarted at once');
  await context.kubectl(['delete', BINDING]);
  try {
    await ours.deleteAll();
    await context.wait(45);
  } finally {
    await giveBack();
  }
  context.step('the ClusterRoleBinding is back again');
  await ours.awaitAll();
  await context.apply(await serviceOf(context, 'new-start'));
  await awaitServed(context, 'new-start', 90);
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
