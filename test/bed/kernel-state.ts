import type { Namespace } from './namespace.ts';

/** Everything of ours in the kernel, by the system's own tools. */
export async function kernelState(node: Namespace): Promise<string> {
  const tools = [['ipvsadm', '-Sn'], ['ipset', 'save'], ['iptables-save'], ['ip6tables-save']];
  const texts = await Promise.all(tools.map(async (argv) => (await node.exec(argv)).stdout));
  const { stdout } = await node.exec(['ip', '-o', 'addr', 'show', 'dev', 'kube-ipvs0', 'scope', 'global']);
  const addresses = stdout.split('\n').map((line) => line.split(/\s+/)[3] ?? '');
  return [...texts.flatMap((text) => text.split('\n')), ...addresses].map(stable).filter(Boolean).sort().join('\n');
}

// Counters and times of iptables-save, and the initval that an ipset draws anew for each set.
function stable(line: string): string {
  return line.startsWith('#') ? '' : line.replace(/ \[\d+:\d+\]$/, '').replace(/ initval 0x[0-9a-f]+/, '');
}

/** Lines that only one of them has. */
export function differences(wanted: string, found: string): string[] {
  const [a, b] = [wanted.split('\n'), found.split('\n')];
  const [inA, inB] = [new Set(a), new Set(b)];
  const missing = a.filter((line) => !inB.has(line)).map((line) => `- ${line}`);
  return [...missing, ...b.filter((line) => !inA.has(line)).map((line) => `+ ${line}`)];
}
