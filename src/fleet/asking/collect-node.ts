import { errorText } from '../../base/text/error-text.ts';
import type { CollectedNode } from '../bundle/bundle-files.ts';
import { reasonOf } from './kubectl.ts';
import type { Asking } from './ask-nodes.ts';
import { CONTAINER, type ProxyPod } from './pods.ts';

/** Lines of the log that are kept. */
const MOST_LINES = 5_000;
/** Characters of one file that are kept. */
const MOST_CHARACTERS = 8 * 1024 * 1024;
/** Bytes that one program may print; iptables-save prints tens of megabytes. */
const MOST_OUTPUT = 64 * 1024 * 1024;

/** The files of a node, and what prints them. Of the program, exit status 1 means that the reply has a problem. */
function sourcesOf(
  { pod }: ProxyPod,
  namespace: string,
  program: readonly string[],
): Readonly<Record<string, readonly string[]>> {
  const logs = ['logs', '-n', namespace, pod, '-c', CONTAINER, `--tail=${MOST_LINES}`];
  const exec = ['exec', '-n', namespace, pod, '-c', CONTAINER, '--'];
  const ask = (subcommand: string): readonly string[] => [...exec, CONTAINER, subcommand, ...program, '-o', 'json'];
  return {
    'log.txt': logs,
    'log-previous.txt': [...logs, '--previous'],
    'diff.json': ask('diff'),
    'support.json': ask('support'),
    // Both variants: `iptables-save` prints that of the image, whichever the node uses.
    ...Object.fromEntries(
      ['iptables-nft', 'ip6tables-nft', 'iptables-legacy', 'ip6tables-legacy'].map((name) => [
        `${name}-save.txt`,
        [...exec, `${name}-save`],
      ]),
    ),
  };
}

/** Collects what the Pod of a node prints, one after the other. What cannot be had is named with the reason. */
export async function collectNode(
  pod: ProxyPod,
  program: readonly string[],
  { kubectl, namespace, seconds }: Asking,
): Promise<CollectedNode> {
  const files = new Map<string, string>();
  const missing = new Map<string, string>();
  for (const [name, args] of Object.entries(sourcesOf(pod, namespace, program))) {
    try {
      const { status, stdout, stderr } = await kubectl.run(args, seconds, MOST_OUTPUT);
      if (status !== 0 && stdout === '') missing.set(name, reasonOf(stderr, status));
      else files.set(name, bounded(stdout));
    } catch (error) {
      missing.set(name, errorText(error));
    }
  }
  return { node: pod.node, files, missing };
}

function bounded(text: string): string {
  return text.length <= MOST_CHARACTERS
    ? text
    : `${text.slice(0, MOST_CHARACTERS)}\n... ${text.length - MOST_CHARACTERS} more characters\n`;
}
