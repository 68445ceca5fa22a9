import { createHash } from 'node:crypto';
import type { NamespacedName } from './names.ts';

/**
 * Longest name: a namespace, a name and a port name of 63 characters each. Longer ones do not fit into a comment of
 * iptables (255).
 */
const MAX_LENGTH = 191;

/** Characters that comments of iptables need not quote or escape. */
const UNSAFE = /[^A-Za-z0-9./:_-]/g;

/**
 * Returns how kube-proxy calls a port of a Service: "default/web:http", or "default/web" if the port has no name. A name that no
 * API server accepts is shortened, and its unusual characters are replaced; a hash keeps it unique.
 */
export function servicePortName(service: NamespacedName, portName: string): string {
  const name = portName === '' ? service : `${service}:${portName}`;
  const safe = name.replace(UNSAFE, '_');
  if (safe === name && name.length <= MAX_LENGTH) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 16);
  return `${safe.slice(0, MAX_LENGTH - 17)}_${hash}`;
}
