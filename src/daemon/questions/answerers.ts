import type { IpAddress } from '../../base/ip.ts';
import { readIp } from '../../base/read-ip.ts';
import { type NamespacedName, namespacedName } from '../../base/service/names.ts';
import { differenceReply } from '../../explain/difference/difference-reply.ts';
import { REPLY_API_VERSION, type ServiceReply, type TrafficBy } from '../../explain/replies.ts';
import { ownersIn } from '../../explain/difference/op-owner.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { Questioned } from '../../reconcile/questioned.ts';
import { type VirtualServerId, virtualServerKey } from '../../state/virtual-server.ts';
import { withHealthChecks } from './ask-health-checks.ts';
import { askedAddress } from './asked-address.ts';
import type { Answerer } from './question-handler.ts';
import { type StatusParts, silentOf, statusReply } from './status-reply.ts';
import { QuestionError, requireCounters } from './question-error.ts';
import { servicesReply } from './services-reply.ts';
import { type SupportParts, supportReply } from './support-reply.ts';
import { withSilent } from './silent-replies.ts';
import { sharedRules } from './shared-rules.ts';
import { type TrafficKernel, trafficReply } from './traffic.ts';
import { watchGap } from './watch-gap.ts';

export interface AnswererOptions extends Omit<StatusParts, 'reconciler' | 'kernel'>, Omit<SupportParts, 'kernel'> {
  readonly kernel: StatusParts['kernel'] &
    SupportParts['kernel'] &
    TrafficKernel &
    Pick<KernelReader, 'compareRules' | 'forgetReadings'>;
  /** Undefined while the daemon starts. */
  readonly reconciler: () => Questioned | undefined;
}

/** Returns the functions that answer the query socket, by path. */
export function answerers(options: AnswererOptions): Readonly<Record<string, Answerer>> {
  const { node, mode, reconciler, kernel } = options;
  const compare = sharedRules(kernel);
  /** Kernel state that was read before the question arrived may be outdated. */
  const asked = async (askedAt: number): Promise<Questioned> => {
    const found = started();
    await kernel.forgetReadings(askedAt);
    return found;
  };
  const started = (): Questioned => {
    const found = reconciler();
    if (found?.started === true) return found;
    throw new QuestionError(503, 'the daemon has not completed its first sync: nothing is planned yet; see its log');
  };
  return {
    '/v1/status': () => {
      const found = reconciler();
      if (found === undefined) throw new QuestionError(503, 'the daemon is still starting: see its log');
      return statusReply({ ...options, reconciler: found });
    },
    '/v1/service': async (query, _signal, askedAt) => {
      const name = askedService(query);
      const found = await asked(askedAt);
      const reply = await found.answers.service(name, (rules) => compare(rules, askedAt));
      return withObserved(reply ?? unknownService(node, name), name, found.plan, options);
    },
    '/v1/address': async (query, _signal, askedAt) => {
      const address = askedAddress(required(query, 'at'));
      return (await asked(askedAt)).answers.address(address);
    },
    '/v1/packet': async (query, _signal, askedAt) => {
      const from = askedIp(required(query, 'from'));
      const at = query.get('at');
      const target = at === null ? askedService(query) : askedAddress(at);
      const { answers } = await asked(askedAt);
      const reply = await answers.packet(from, target, (rules) => compare(rules, askedAt));
      if ('problem' in reply) throw new QuestionError(400, reply.problem);
      return reply;
    },
    '/v1/traffic': async (query) => {
      requireCounters(mode, true);
      const by = trafficBy(required(query, 'by'));
      const { plan } = started();
      const namespace = query.get('namespace') ?? undefined;
      const ownerOf = (id: VirtualServerId) => plan.ownerOf(virtualServerKey(id));
      const reply = await trafficReply({ ...options, by, namespace, ownerOf });
      return { ...reply, ...silentOf(options, plan, namespace) };
    },
    '/v1/services': (query) =>
      servicesReply({ ...options, namespace: query.get('namespace') ?? undefined, reconciler: started() }),
    '/v1/support': () => supportReply(options),
    '/v1/diff': async (_query, signal) => {
      const found = started();
      const difference = await found.answers.difference(signal);
      return differenceReply(node, difference, found.syncing);
    },
  };
}

/** Adds what the daemon has observed of the Service, beside the kernel. */
async function withObserved(
  reply: ServiceReply,
  name: NamespacedName,
  plan: NodePlan,
  { watches, clock, history, silentEndpoints }: AnswererOptions,
): Promise<ServiceReply> {
  const now = clock.now();
  const gap = watchGap(watches, now);
  const notes = gap === undefined ? reply.notes : [...reply.notes, gap];
  const known = withSilent({ ...reply, notes }, silentEndpoints?.(), plan, now);
  return { ...(await withHealthChecks(known)), ...history.ofService(name, ownersIn(plan)) };
}

function required(query: URLSearchParams, name: string): string {
  const value = query.get(name) ?? '';
  if (value === '') throw new QuestionError(400, `the question has no ${name}`);
  return value;
}

function askedService(query: URLSearchParams): NamespacedName {
  return namespacedName(required(query, 'namespace'), required(query, 'name'));
}

function askedIp(text: string): IpAddress {
  const address = readIp(text);
  if (address === undefined) throw new QuestionError(400, `${JSON.stringify(text.slice(0, 80))} is not an IP address`);
  return address;
}

function trafficBy(text: string): TrafficBy {
  if (text === 'service' || text === 'endpoint') return text;
  throw new QuestionError(400, 'by: want service or endpoint');
}

function unknownService(node: string, service: NamespacedName): ServiceReply {
  const verdict =
    `${service} is not served on this node: there is no such Service, or it is headless, of type ExternalName, ` +
    'or assigned to another proxy by a label';
  const empty = { ports: [], sets: [], refused: [], notes: [] };
  return { apiVersion: REPLY_API_VERSION, kind: 'Service', node, ok: false, verdict, service, ...empty };
}
