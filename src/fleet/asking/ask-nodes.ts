import { errorText } from '../../base/text/error-text.ts';
import { REPLY_API_VERSION } from '../../explain/replies.ts';
import type { SilentNode } from '../fleet-replies.ts';
import { type Kubectl, reasonOf } from './kubectl.ts';
import { CONTAINER, type ProxyPod } from './pods.ts';

export interface Question<T> {
  /** Returns the arguments of the program in the Pod. */
  readonly args: (pod: ProxyPod) => readonly string[];
  readonly kinds: readonly string[];
  /** Keeps what is needed of a reply of one of these kinds. If it throws, the node has not answered. */
  read(node: string, reply: object): T;
}

export interface Asking {
  readonly kubectl: Kubectl;
  readonly namespace: string;
  /** The number of nodes that are asked at the same time. */
  readonly parallel: number;
  /** The time that each node has. */
  readonly seconds: number;
}

export interface Answers<T> {
  readonly answers: readonly T[];
  readonly silent: readonly SilentNode[];
}

/** Bytes of a reply, which usually has a few hundred kilobytes. Parsed, small objects take twenty times as much. */
const MOST_REPLY = 16 * 1024 * 1024;
/** Levels of objects and lists in a reply; it has about six. Functions that call themselves read it. */
const MOST_LEVELS = 32;

/** Asks each node. One that does not answer takes its own time only, and is named. */
export async function askNodes<T>(
  pods: readonly ProxyPod[],
  question: Question<T>,
  asking: Asking,
): Promise<Answers<T>> {
  const answers: T[] = [];
  const silent: SilentNode[] = [];
  await forEachPod(pods, asking.parallel, async (pod) => {
    try {
      if (pod.why !== undefined) throw new Error(pod.why);
      answers.push(question.read(pod.node, await askPod(pod, question, asking)));
    } catch (error) {
      silent.push({ node: pod.node, pod: pod.pod, why: errorText(error) });
    }
  });
  return { answers, silent };
}

/** Calls `work` for each Pod, of which `parallel` at a time. */
export async function forEachPod(
  pods: readonly ProxyPod[],
  parallel: number,
  work: (pod: ProxyPod) => Promise<void>,
): Promise<void> {
  const waiting = pods.values();
  const worker = async (): Promise<void> => {
    for (const pod of waiting) await work(pod);
  };
  await Promise.all(Array.from({ length: Math.min(parallel, pods.length) }, worker));
}

async function askPod(
  pod: ProxyPod,
  { args, kinds }: Pick<Question<unknown>, 'args' | 'kinds'>,
  { kubectl, namespace, seconds }: Asking,
): Promise<object> {
  const { status, stdout, stderr } = await kubectl.run(
    ['exec', '-n', namespace, pod.pod, '-c', CONTAINER, '--', CONTAINER, ...args(pod), '-o', 'json'],
    seconds,
    MOST_REPLY,
  );
  // 1: something is wrong, and the reply says what.
  if (status !== 0 && (status !== 1 || stdout.trim() === '')) throw new Error(reasonOf(stderr, status));
  const reply = replyOf(stdout);
  if (reply === undefined || !kinds.includes(reply.kind))
    throw new Error('what it prints is no reply to this question');
  if (isDeeper(reply, MOST_LEVELS)) throw new Error(`its reply has more than ${MOST_LEVELS} levels`);
  return reply;
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((each) => isDeeper(each, levels - 1));
}

function replyOf(text: string): { readonly kind: string } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null) return undefined;
    const { apiVersion, kind } = value as { readonly apiVersion?: unknown; readonly kind?: unknown };
    return apiVersion === REPLY_API_VERSION && typeof kind === 'string' ? { ...value, kind } : undefined;
  } catch {
    return undefined;
  }
}
