import { readFile } from 'node:fs/promises';
import { StartupError } from './startup-error.ts';

/** linux/capability.h. */
const CAP_NET_ADMIN = 12n;

/** Said before anything else is tried: without this right every other complaint would only be a symptom. */
export async function requireNetAdmin(): Promise<void> {
  const status = await readFile('/proc/self/status', 'utf8');
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  // Without the line the kernel itself will say what is not allowed.
  if (effective === undefined || ((BigInt(`0x${effective}`) >> CAP_NET_ADMIN) & 1n) === 1n) return;
  throw new StartupError(
    "this process may not change the node's network: run it as root or with CAP_NET_ADMIN (in a Pod: securityContext.privileged: true)",
  );
}
