import { KubectlError } from '../../fleet/asking/kubectl.ts';
import type { ConnectReply } from '../../explain/node/node-replies.ts';
import { checkFacts, mergeCheck } from '../../fleet/check/merge-check.ts';
import { type ServiceObject, serviceTargets, targetsByNode } from '../../fleet/check/service-targets.ts';
import type { FleetCheckReply } from '../../fleet/fleet-replies.ts';
import type { Older } from '../../fleet/older.ts';
import { serviceOf } from '../explain.ts';
import { aligned, wrapped } from '../output.ts';
import { UsageError } from '../usage-error.ts';
import type { Command } from '../command.ts';
import { section, silentLines } from './fleet-lines.ts';
import { FLEET_OPTIONS, Fleet } from './fleet-options.ts';

/** Every cluster has it, and all nodes need it. */
const DEFAULT_SERVICE = 'default/kubernetes';

export const FLEET_CHECK: Command = {
  usage: '[SERVICE | NAMESPACE/SERVICE] [options]',
  summary:
    'whether a Service answers on each node: TCP connections from the Pod of each node to its cluster IPs, external ' +
    `addresses, and node ports of this node and another one; ${DEFAULT_SERVICE} by default`,
  options: {
    namespace: { short: 'n', hint: 'name', help: 'namespace of the Service; default by default' },
    ...FLEET_OPTIONS,
  },
  takes: 'arguments',
  run: async (given) => {
    const [target = DEFAULT_SERVICE, ...more] = given.positionals;
    if (more.length > 0) throw new UsageError('check takes one Service: see fleet check --help');
    const { namespace, name } = serviceOf(target, given);
    using fleet = await Fleet.find(given);
    const targets = serviceTargets(await readService(fleet, namespace, name));
    if (targets.shared.length === 0 && targets.nodePorts.length === 0) {
      const [note = 'it has no cluster IP with a TCP port'] = targets.notes;
      throw new UsageError(`of ${namespace}/${name} nothing can be checked: ${note}`);
    }
    const byNode = targetsByNode(fleet.pods, targets);
    const { answers, silent } = await fleet.ask({
      args: ({ node }) => ['connect', ...(byNode.get(node) ?? []).map(({ to }) => to)],
      kinds: ['Connect'],
      read: (node, reply: Older<ConnectReply>) => checkFacts(node, byNode.get(node) ?? [], reply),
    });
    const reply = mergeCheck(`${namespace}/${name}`, targets.notes, answers, silent);
    return { reply, lines: fleetCheckLines(reply) };
  },
};

async function readService({ asking }: Fleet, namespace: string, name: string): Promise<Older<ServiceObject>> {
  try {
    const text = await asking.kubectl.output(['get', 'service', '-n', namespace, name, '-o', 'json'], asking.seconds);
    return JSON.parse(text) as Older<ServiceObject>;
  } catch (error) {
    if (error instanceof KubectlError) throw new UsageError(error.message, { cause: error });
    if (error instanceof SyntaxError) throw new UsageError('kubectl get service prints no JSON', { cause: error });
    throw error;
  }
}

function fleetCheckLines({ verdict, failed, notes, silent }: FleetCheckReply): string[] {
  return [
    ...wrapped(verdict),
    ...notes.flatMap((note) => wrapped(`note: ${note}`)),
    ...section('fail', aligned(failed.map(({ from, path, to, why }) => [`from ${from}`, path, to, why]))),
    ...silentLines(silent),
  ];
}
