import { writeFile } from 'node:fs/promises';
import { errorText } from '../../base/text/error-text.ts';
import { escapeUnprintable } from '../../base/text/escape-unprintable.ts';
import { longVersion } from '../../config/version.ts';
import { REPLY_API_VERSION } from '../../explain/replies.ts';
import { forEachPod } from '../../fleet/asking/ask-nodes.ts';
import { collectNode } from '../../fleet/asking/collect-node.ts';
import type { ProxyPod } from '../../fleet/asking/pods.ts';
import { type CollectedNode, bundleFiles, statusFile, packFiles } from '../../fleet/bundle/bundle-files.ts';
import { mergeStatus } from '../../fleet/facts/merge-status.ts';
import { statusFacts } from '../../fleet/facts/status-facts.ts';
import type { FleetBundleReply, FleetStatusReply } from '../../fleet/fleet-replies.ts';
import { wrapped } from '../output.ts';
import { UsageError } from '../usage-error.ts';
import type { Command } from '../command.ts';
import { FLEET_OPTIONS, Fleet } from './fleet-options.ts';
import { fleetStatusLines } from './fleet-status.ts';

/** The folder in the archive, and the name of the archive. */
const FOLDER = 'kube-ipvs-proxy-bundle';
/** Nodes that differ, and nodes that do not, of which all is collected unless nodes are named. */
const MOST_DIFFERING = 5;
const MOST_ALIKE = 1;

export const FLEET_BUNDLE: Command = {
  usage: '[options]',
  summary:
    'the path of a support archive that it writes: status of all nodes; of some also configuration, log, metrics and ' +
    'kernel state; what looks like a secret is removed',
  options: {
    file: { short: 'f', hint: 'path', help: `the archive; ${FOLDER}.tar.gz by default` },
    ...FLEET_OPTIONS,
  },
  run: async (given) => {
    const { file = `${FOLDER}.tar.gz`, nodes } = given.values;
    using fleet = await Fleet.find(given);
    const statuses = new Map<string, string>();
    const { answers, silent } = await fleet.ask({
      args: () => ['status'],
      kinds: ['Status', 'KernelStatus'],
      read: (node, reply) => {
        const facts = statusFacts(node, reply);
        statuses.set(node, statusFile(reply));
        return facts;
      },
    });
    const status = mergeStatus(answers, silent, fleet.withoutPod);
    const collected: CollectedNode[] = [];
    const chosen = nodes === undefined ? chosenOf(fleet.pods, status) : fleet.pods;
    await forEachPod(chosen, fleet.asking.parallel, async (pod) => {
      collected.push(await collectNode(pod, fleet.programOptions, fleet.asking));
    });
    const { kubectl, seconds } = fleet.asking;
    const versions = await kubectl.output(['version', '-o', 'json'], seconds).catch(errorText);
    const statusText = fleetStatusLines(status).map(escapeUnprintable).join('\n');
    const collector = `kube-ipvs-proxy ${longVersion()}`;
    const files = bundleFiles({ collector, versions, status, statusText, statuses, nodes: collected });
    const archive = await packFiles(FOLDER, files);
    await write(file, archive);
    const reply = replyOf(file, archive.length, status, files);
    return { reply, lines: [...wrapped(reply.verdict), '', ...fleetStatusLines(status)] };
  },
};

/** The first nodes that differ or do not answer, and one that does neither, to compare with. */
function chosenOf(pods: readonly ProxyPod[], { differing, silent }: FleetStatusReply): readonly ProxyPod[] {
  const odd = new Set([...silent, ...differing].map(({ node }) => node));
  const [others, alike] = [true, false].map((isOdd) => pods.filter(({ node }) => odd.has(node) === isOdd));
  return [...(others ?? []).slice(0, MOST_DIFFERING), ...(alike ?? []).slice(0, MOST_ALIKE)];
}

async function write(path: string, content: Buffer): Promise<void> {
  try {
    await writeFile(path, content, { mode: 0o600 });
  } catch (error) {
    throw new UsageError(`cannot write ${path}: ${errorText(error)}`, { cause: error });
  }
}

/** It is as wanted if it was written, whatever the nodes say. */
function replyOf(
  file: string,
  bytes: number,
  { asked, answered, silent, verdict }: FleetStatusReply,
  files: ReadonlyMap<string, string>,
): FleetBundleReply {
  return {
    apiVersion: REPLY_API_VERSION,
    kind: 'FleetBundle',
    ok: true,
    verdict: `wrote ${file} (${files.size} files, ${bytes} bytes); ${verdict}`,
    asked,
    answered,
    silent,
    file,
    bytes,
    files: [...files.keys()],
  };
}
