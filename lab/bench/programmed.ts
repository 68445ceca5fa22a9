import type { BenchNode } from './bench-node.ts';

/** What is in a node's kernel, as the system's own tools save it; what they restore from. */
export interface Programmed {
  /** `ipvsadm -Sn` */
  readonly ipvs: string;
  /** `ipset save` */
  readonly sets: string;
  /** Lines for `ip -batch`, an address of kube-ipvs0 each. */
  readonly addresses: string;
}

export async function programmed(node: BenchNode): Promise<Programmed> {
  const shown = await node.run(['ip', '-oneline', 'addr', 'show', 'dev', 'kube-ipvs0', 'scope', 'global']);
  const addresses = Array.from(shown.matchAll(/ inet6? (\S+)/g), ([, address]) => {
    const local = address?.includes(':') === true ? 'nodad' : '';
    return `addr add ${address} dev kube-ipvs0 ${local}\n`;
  });
  return {
    ipvs: await node.run(['ipvsadm', '-Sn']),
    sets: await node.run(['ipset', 'save']),
    addresses: addresses.join(''),
  };
}

function sortedLines(text: string): string {
  return text.split('\n').sort().join('\n');
}

/** Of the sets the entries: sizes of hash tables may differ. */
function entries(sets: string): string {
  return sortedLines(sets.replaceAll(/^create.*\n/gm, ''));
}

/** A time is of use only if all that was timed has left the same state. */
export async function mustHold(node: BenchNode, wanted: Programmed, who: string): Promise<void> {
  const found = await programmed(node);
  const same = {
    'virtual servers': sortedLines(found.ipvs) === sortedLines(wanted.ipvs),
    'set entries': entries(found.sets) === entries(wanted.sets),
    addresses: sortedLines(found.addresses) === sortedLines(wanted.addresses),
  };
  for (const [what, is] of Object.entries(same)) if (!is) throw new Error(`${who} left other ${what}`);
}
