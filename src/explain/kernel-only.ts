import { REPLY_API_VERSION, type Reply } from './replies.ts';

const PREFIX = 'no daemon runs here (or it has another --query-socket), so only the kernel was read: ';

/** The common fields of a reply that was read from the kernel alone. Without a daemon, nothing is as wanted. */
export function kernelOnly<K extends string>(kind: K, node: string, verdict: string): Reply<K> {
  return { apiVersion: REPLY_API_VERSION, kind, node, ok: false, verdict: PREFIX + verdict, kernelOnly: true };
}
