import { counted } from '../base/text/counted.ts';
import { Yielder } from '../base/yielder.ts';
import { parseArgv } from '../cli/parse-argv.ts';
import { loadConfig } from '../config/load-config.ts';
import { ConfigError } from '../config/value/problem.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';
import { loadMode } from '../daemon/modes/load-mode.ts';
import { nodeNameOf, planConfigOf } from '../daemon/startup/node-identity.ts';
import { differingOperations } from '../explain/difference/difference-reply.ts';
import { opsByOwner, ownersIn } from '../explain/difference/op-owner.ts';
import { planOperations, plannedRules } from '../explain/plan-operations.ts';
import { REPLY_API_VERSION, type PlanReply } from '../explain/replies.ts';
import { wordsOf } from '../explain/words.ts';
import type { Log } from '../observe/log/log.ts';
import { DesiredState } from '../reconcile/desired/desired-state.ts';
import { commandLines } from './diff.ts';
import { clusterOf } from './manifests.ts';
import { wrapped } from './output.ts';
import { UsageError } from './usage-error.ts';
import type { Command, Given } from './command.ts';

export const PLAN: Command = {
  usage: '-f DIR|FILE|- [options] [-- FLAGS]',
  summary:
    'what these manifests would program on a node that has nothing yet. Needs no daemon, no root and no kernel. ' +
    'FLAGS are those of the daemon, such as --ipvs-scheduler=sh',
  options: {
    file: { short: 'f', hint: 'path', help: 'a directory or a file of manifests, or - for standard input' },
    node: { hint: 'name', help: 'the node to plan for; the name of this host by default' },
  },
  takes: 'flags',
  run: async (given) => {
    const reply = await planReply(given);
    const warnings = reply.warnings.flatMap((warning) => wrapped(`warning: ${warning}`));
    const notes = reply.notes.flatMap((note) => wrapped(`note: ${note}`));
    return { reply, lines: [...wrapped(reply.verdict), ...warnings, ...notes, ...commandLines(reply.operations)] };
  },
};

async function planReply({ values, rest }: Given): Promise<PlanReply> {
  const { file, node: named } = values;
  if (file === undefined)
    throw new UsageError('plan needs -f with a directory or a file of manifests, or - for standard input');
  const config = await configOf(rest);
  const node = named ?? nodeNameOf(config);
  const { cluster, notes, warnings: fileWarnings } = await clusterOf(file, node, config);
  const warnings = [...fileWarnings];
  const planConfig = planConfigOf(config, node, [4, 6], cluster);
  const log = collectingLog(warnings);
  const desired = new DesiredState({ cluster, plan: planConfig, log, nodeIpOverride: config.nodeIpOverride });
  desired.setInterfaceAddresses(cluster.node()?.reportedAddresses ?? []);
  await desired.refresh(new Yielder());
  const { plan } = desired;
  for (const name of cluster.names()) {
    for (const { claimed, owner } of plan.conflictsOf(name)) warnings.push(`${name}: ${claimed} belongs to ${owner}`);
  }
  const owned = opsByOwner(planOperations(plan, planConfig), ownersIn(plan));
  const { previewOfNothing } = await loadMode(config.mode);
  const preview = await previewOfNothing(
    plannedRules(planConfig),
    owned.map(({ ops }) => ops),
  );
  const operations = differingOperations({
    rules: preview.rules,
    parts: owned.map(({ service }, at) => ({ service, commands: preview.parts[at] ?? [] })),
    settings: [],
  });
  const ok = warnings.length === 0;
  const counts = [
    counted(cluster.names().length, 'Service'),
    counted(plan.virtualServerCount, wordsOf(config.mode).served),
    counted(operations.length, 'operation'),
    ...(ok ? [] : [counted(warnings.length, 'warning')]),
  ].join(', ');
  const known = cluster.node() === undefined ? ' (not in the manifests, so without a zone and NodePort addresses)' : '';
  const verdict = `on node ${node}${known}: ${counts}`;
  return { apiVersion: REPLY_API_VERSION, kind: 'Plan', node, ok, verdict, operations, warnings, notes };
}

async function configOf(flags: readonly string[]): Promise<ProxyConfig> {
  const parsed = parseArgv(['--proxy-mode=ipvs', ...flags]);
  if (!parsed.ok)
    throw new UsageError(`${parsed.errors.join('; ')} (flags of the daemon follow "--"; options of plan precede it)`);
  const { help = false, helpAll = false } = parsed.given;
  if (help || helpAll) throw new UsageError('for the flags after "--" see kube-ipvs-proxy --help');
  const config = await loadConfig(parsed.given).catch((error: unknown) => {
    throw error instanceof ConfigError ? new UsageError(error.problems.join('; ')) : error;
  });
  return config;
}

/** A log that keeps the warnings about objects. */
function collectingLog(warnings: string[]): Log {
  const log: Log = {
    error: (message) => void warnings.push(message),
    warn: (message, { service } = {}) =>
      void warnings.push(typeof service === 'string' ? `${service}: ${message}` : message),
    info: () => undefined,
    debug: () => undefined,
    enabled: () => false,
    child: () => log,
  };
  return log;
}
