import type { TrialContext } from '../context.ts';
import { checkSame, readNodes } from '../node-state.ts';
import { SERVICES } from '../servers.ts';
import type { Trial } from '../trial.ts';

const IN_FORCE_SECONDS = 30;
/** All nodes would send the same Event: each waits 30 to 90 s whether another one does. */
const EVENT_SECONDS = 150;
const SETTLED_SECONDS = 5;

/** What the Services ask for, one after the other; and a text in what ipvsadm then prints of each virtual server. */
const STEPS: readonly (readonly [annotations: Readonly<Record<string, string>>, text: string])[] = [
  [{ scheduler: 'wrr' }, ' -s wrr'],
  [{ scheduler: 'wrr', weights: 'node=local:10,node=other:1' }, ' -s wrr'],
  [{ scheduler: 'mh', 'scheduler-flags': 'mh-port' }, ' -s mh -b mh-port'],
  [{ scheduler: 'sed', weights: 'node=local:2,node=other:3', 'drain-timeout': '1m' }, ' -s sed'],
  [{ scheduler: 'lc' }, ' -s lc'],
];

/** Bad values, and the reason of the Event that tells of it. The Services are served as if there were no annotation. */
const REFUSED: readonly (readonly [name: string, value: string, reason: string])[] = [
  ['scheduler', 'no-such', 'InvalidAnnotation'],
  ['connection-limit', '1', 'AnnotationNotPermitted'],
  ['schedular', 'wrr', 'UnknownAnnotation'],
];

export const serviceAnnotated: Trial = {
  name: 'service-annotated',
  what: 'the Services ask for schedulers, flags, weights and a drain timeout by annotations, then for none; then for what they may not have',
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const before = await readNodes(context);
    for (const [annotations, text] of STEPS) {
      const asked = Object.entries(annotations).map((each) => each.join('='));
      context.step(asked.join(' '));
      await annotate(context, annotations);
      await inForce(context, text);
      await context.wait(SETTLED_SECONDS);
    }
    context.step('without annotations');
    await annotate(context, {});
    await inForce(context, ' -s rr');
    await context.wait(SETTLED_SECONDS);
    checkSame(context, before, await readNodes(context), 'are as before the annotations');
    context.step('values that are not valid or not permitted');
    await annotate(context, Object.fromEntries(REFUSED.map(([name, value]) => [name, value])));
    for (const [, , reason] of REFUSED) {
      const seconds = await context.until(`kubectl describe shows ${reason}`, EVENT_SECONDS, async () =>
        (await context.own(['describe', 'service', SERVICES.cluster])).includes(reason),
      );
      context.say(`kubectl describe shows ${reason} after ${seconds} s`);
    }
    checkSame(context, before, await readNodes(context), 'are as before these annotations');
    await annotate(context, {});
  },
};

const PREFIX = 'kube-ipvs-proxy/';

/** Gives both Services these annotations, and none else of ours. */
async function annotate(context: TrialContext, wanted: Readonly<Record<string, string>>): Promise<void> {
  const known = [...STEPS.flatMap(([annotations]) => Object.keys(annotations)), ...REFUSED.map(([name]) => name)];
  const annotations = Object.fromEntries([...new Set(known)].map((name) => [`${PREFIX}${name}`, wanted[name] ?? null]));
  const patch = JSON.stringify({ metadata: { annotations } });
  for (const service of Object.values(SERVICES)) await context.own(['patch', 'service', service, `--patch=${patch}`]);
}

/** Waits until the virtual servers of both Services have the text on all nodes. */
async function inForce(context: TrialContext, text: string): Promise<void> {
  const addresses = await Promise.all(
    Object.values(SERVICES).map((service) =>
      context.own(['get', 'service', service, '--output=jsonpath={.spec.clusterIP}']),
    ),
  );
  for (const { name } of context.state.nodes) {
    await context.until(`${name} has${text}`, IN_FORCE_SECONDS, async () => {
      const lines = (await context.node(name, 'ipvsadm -Sn')).split('\n');
      const heads = lines.filter((line) => addresses.some((address) => line.startsWith(`-A -t ${address}:`)));
      return heads.length === addresses.length && heads.every((line) => line.includes(text));
    });
  }
}
