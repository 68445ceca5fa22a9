import { formatHostPort, formatIp, parseIp } from '../../src/base/ip.ts';

const OPTION_OF: Readonly<Record<string, string>> = { tcp: '-t', udp: '-u', sctp: '--sctp-service' };
/** Sets whose entries name virtual servers. */
const NAMING =
  /^add KUBE-(?:6-)?(?:CLUSTER-IP|EXTERNAL-IP|LOAD-BALANCER|NODE-PORT)[A-Z-]* ([^,]+),(tcp|udp|sctp):(\d+)$/;
const NODE_PORT = /^add KUBE-(?:6-)?NODE-PORT-(?:LOCAL-)?(TCP|UDP) (\d+)$/;
const NODE_ADDRESS = /^add KUBE-(?:6-)?NODE-PORT-IP (\S+)$/;

/**
 * Returns the virtual servers that nothing in the kernel marks as ours, as ipvsadm names them ("-t 10.0.0.1:80").
 * Others removed every mark, so a starting daemon cannot distinguish them from those of another program.
 */
export function orphansIn(found: readonly string[]): ReadonlySet<string> {
  const nodeAddresses = found.flatMap((line) => parseIp(NODE_ADDRESS.exec(line)?.[1] ?? '') ?? []);
  const marked = new Set<string>();
  const bound = new Set<string>();
  for (const line of found) {
    if (line.startsWith('address ')) bound.add(line.slice('address '.length));
    const [, host = '', protocol = '', port = ''] = NAMING.exec(line) ?? [];
    const address = parseIp(host);
    if (address !== undefined) marked.add(`${OPTION_OF[protocol] ?? ''} ${formatHostPort(address, Number(port))}`);
    const [, of, number] = NODE_PORT.exec(line) ?? [];
    if (of === undefined) continue;
    for (const one of nodeAddresses)
      marked.add(`${OPTION_OF[of.toLowerCase()] ?? ''} ${formatHostPort(one, Number(number))}`);
  }
  const orphans = new Set<string>();
  for (const line of found) {
    const target = targetOf(line);
    if (target === undefined || marked.has(target) || bound.has(hostOf(target))) continue;
    orphans.add(target);
  }
  return orphans;
}

/** Returns the virtual server of a line, as ipvsadm names it. */
export function targetOf(line: string): string | undefined {
  return /^-[Aa] (\S+ \S+)/.exec(line)?.[1];
}

function hostOf(target: string): string {
  const host = target
    .replace(/^\S+ /, '')
    .replace(/:\d+$/, '')
    .replace(/^\[(.*)\]$/, '$1');
  const address = parseIp(host);
  return address === undefined ? host : formatIp(address);
}
