import type { Namespace } from './namespace.ts';

/** Returns all our objects in the kernel, as printed by the system's tools. */
export async function kernelState(node: Namespace): Promise<string> {
  const tools = [['ipvsadm', '-Sn'], ['ipset', 'save'], ['iptables-save'], ['ip6tables-save']];
  const texts = await Promise.all(tools.map(async (argv) => (await node.exec(argv)).stdout));
  const { stdout } = await node.exec(['ip', '-o', 'addr', 'show', 'dev', 'kube-ipvs0', 'scope', 'global']);
  const addresses = stdout.split('\n').map((line) => line.split(/\s+/)[3] ?? '');
  return [...texts.flatMap((text) => text.split('\n')), ...addresses].map(stable).filter(Boolean).sort().join('\n');
}

// Removes counters and times of iptables-save, and the initval of ipset, which is random for each set.
function stable(line: string): string {
  return line.startsWith('#') ? '' : line.replace(/ \[\d+:\d+\]$/, '').replace(/ initval 0x[0-9a-f]+/, '');
}

/** Returns the lines that only one of them has. */
export function differences(wanted: string, found: string): string[] {
  const [a, b] = [wanted.split('\n'), found.split('\n')];
  const [inA, inB] = [new Set(a), new Set(b)];
  const missing = a.filter((line) => !inB.has(line)).map((line) => `- ${line}`);
  return [...missing, ...b.filter((line) => !inA.has(line)).map((line) => `+ ${line}`)];
}
