import { compareText } from '../../base/text/compare-text.ts';
import type { Older } from '../older.ts';
import { type Kubectl, KubectlError } from './kubectl.ts';

/** A Pod of the DaemonSet. */
export interface ProxyPod {
  readonly node: string;
  readonly pod: string;
  /** Of the node; "" if it is not known. */
  readonly address: string;
  /** Why it cannot be asked; absent if it runs. */
  readonly why?: string;
}

/** The fields of a Pod that are read. */
interface PodObject {
  readonly metadata: {
    readonly name: string;
    readonly creationTimestamp: string;
    readonly deletionTimestamp: string;
  };
  readonly spec: { readonly nodeName: string };
  readonly status: {
    readonly phase: string;
    readonly hostIP: string;
    readonly reason: string;
    readonly containerStatuses: readonly ContainerStatus[];
    readonly initContainerStatuses: readonly ContainerStatus[];
  };
}

interface ContainerStatus {
  readonly name: string;
  readonly state: {
    readonly waiting: { readonly reason: string; readonly message: string };
    readonly terminated: { readonly reason: string };
    readonly running: object;
  };
}

export const CONTAINER = 'kube-ipvs-proxy';

export interface PodSelection {
  readonly namespace: string;
  readonly selector: string;
}

/** Returns the newest Pod of each node, by node. Throws a KubectlError. */
export async function proxyPods(
  kubectl: Kubectl,
  { namespace, selector }: PodSelection,
  seconds: number,
): Promise<readonly ProxyPod[]> {
  const text = await kubectl.output(['get', 'pods', '-n', namespace, '-l', selector, '-o', 'json'], seconds);
  return podsOf(text);
}

/** Reads the output of `kubectl get pods -o json`. */
export function podsOf(text: string): readonly ProxyPod[] {
  let items: Older<readonly PodObject[]>;
  try {
    ({ items = [] } = JSON.parse(text) as Older<{ readonly items: readonly PodObject[] }>);
  } catch (error) {
    throw new KubectlError('kubectl get pods prints no JSON', { cause: error });
  }
  const newest = new Map<string, Older<PodObject>>();
  for (const pod of items) {
    const node = pod.spec?.nodeName ?? '';
    if (node === '') continue;
    const known = newest.get(node);
    if (known === undefined || isRather(pod, known)) newest.set(node, pod);
  }
  return Array.from(newest, ([node, pod]): ProxyPod => {
    const why = whyNotAsked(pod);
    return {
      node,
      pod: pod.metadata?.name ?? '',
      address: pod.status?.hostIP ?? '',
      ...(why === undefined ? {} : { why }),
    };
  }).toSorted((a, b) => compareText(a.node, b.node));
}

/** Whether the Pod, rather than the other one of the same node, has the daemon. */
function isRather(pod: Older<PodObject>, other: Older<PodObject>): boolean {
  const [a, b] = [pod, other].map(({ status, metadata }) => ({
    lives: metadata?.deletionTimestamp === undefined && status?.phase === 'Running' ? 1 : 0,
    created: metadata?.creationTimestamp ?? '',
  }));
  if (a === undefined || b === undefined) return false;
  return a.lives === b.lives ? a.created > b.created : a.lives > b.lives;
}

function whyNotAsked({ status, metadata }: Older<PodObject>): string | undefined {
  const state = status?.containerStatuses?.find(({ name }) => name === CONTAINER)?.state;
  if (status?.phase === 'Running' && state?.running !== undefined) return undefined;
  const starting = status?.initContainerStatuses?.find(({ state: own }) => own?.waiting !== undefined)?.state;
  const waiting = starting?.waiting ?? state?.waiting;
  const reason = waiting?.reason ?? state?.terminated?.reason ?? status?.reason ?? status?.phase ?? 'without a status';
  const message = waiting?.message === undefined ? '' : `: ${waiting.message}`;
  return `Pod ${metadata?.name} does not run: ${reason}${message}`;
}

/** Returns the names of all nodes of the cluster; an empty list if who asks may not read them. */
export async function clusterNodes(kubectl: Kubectl, seconds: number): Promise<readonly string[]> {
  const { status, stdout } = await kubectl.run(['get', 'nodes', '-o', 'name'], seconds);
  if (status !== 0) return [];
  return stdout
    .split('\n')
    .filter((line) => line.startsWith('node/'))
    .map((line) => line.trim().slice('node/'.length));
}
