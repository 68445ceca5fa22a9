// Above the daemon's ports (10249, 10256), below NodePorts (30000) and the kernel's ephemeral ports (32768).
const FIRST = 11_000;
const COUNT = 19_000;

let used = 0;

/**
 * Returns a new source port for each probe. The kernel may reuse an ephemeral port within seconds, and IPVS identifies
 * a connection in the reply direction only by client address, client port and real server: while it has an entry for
 * one, another from the same port through another virtual server to the same real server fails (test/hard-cases.md).
 */
export function nextSourcePort(): number {
  return FIRST + (used++ % COUNT);
}
