import { COMMANDS, FLEET_COMMANDS } from '../../src/command/program/run-command.ts';
import { FLAGS, FLAG_GROUPS, type Flag } from '../../src/config/flags/flag-table.ts';
import { defaultText, helpOf } from '../../src/config/flags/setting.ts';
import type { Command } from '../../src/command/command.ts';

/** Escapes text for roff: a hyphen would otherwise become a dash, and a leading dot or quote a request. */
function roff(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^(?=[.'])/, '\\&');
}

function flagEntry(flag: Flag): string {
  const { short, name, hint, kind, inFile, key, deprecated } = flag;
  const value = hint ?? kind.hint;
  const heading = `${short === undefined ? '' : `\\fB\\-${short}\\fR, `}\\fB\\-\\-${roff(name)}\\fR${value === '' ? '' : `=\\fI${roff(value)}\\fR`}`;
  const fallback = defaultText(flag);
  const sentences = [
    helpOf(flag),
    ...(fallback === '' ? [] : [`default: ${fallback}`]),
    ...(inFile ? [`field: ${key}`] : []),
    ...(deprecated === undefined ? [] : [`deprecated: ${deprecated}`]),
  ];
  return `.TP\n${heading}\n${roff(sentences.join('; '))}.`;
}

/** Its options are in its own --help. */
function commandEntry([name, { usage, summary }]: readonly [string, Command]): string {
  return `.TP\n\\fB${roff(`${name} ${usage}`)}\\fR\n${roff(`Prints ${summary}`)}.`;
}

/**
 * The page kube-ipvs-proxy(8), from the tables of flags and subcommands.
 *
 * @param date the date of the release, such as `2026-11-22`
 */
export function manPage(version: string, date: string): string {
  const groups = FLAG_GROUPS.map((group) => {
    const entries = FLAGS.filter((flag) => flag.group === group).map(flagEntry);
    return `.SS ${roff(group)}\n${entries.join('\n')}`;
  });
  return `.TH KUBE\\-IPVS\\-PROXY 8 ${date} "kube\\-ipvs\\-proxy ${version}" "System Administration"
.SH NAME
kube\\-ipvs\\-proxy \\- Kubernetes service proxy that programs IPVS or nf_tables
.SH SYNOPSIS
.B kube\\-ipvs\\-proxy
.RI [ flags ]
.br
.B kube\\-ipvs\\-proxy
.I subcommand
.RI [ options ]
.SH DESCRIPTION
The service proxy of a Kubernetes node. It watches Services and EndpointSlices. In ipvs mode, it programs IPVS virtual
servers, ipsets, the addresses of the interface kube\\-ipvs0 and a few iptables rules; in nftables mode, the tables
kube\\-proxy of nf_tables; in iptables mode, chains of iptables. It replaces kube\\-proxy and accepts its flags and its configuration file.
.PP
With \\fB\\-\\-config\\fR, the file replaces the values of all flags that have a field, with two exceptions: logging flags
always override the file, and \\fB\\-\\-hostname\\-override\\fR does so when it is not empty.
.PP
When the program ends, what it wrote to the kernel stays in force. \\fB\\-\\-cleanup\\fR removes it.
.SH SUBCOMMANDS
They ask the daemon of this node, as root. \\fB\\-\\-help\\fR after a subcommand lists its options.
${Object.entries(COMMANDS).map(commandEntry).join('\n')}
.PP
These ask the daemons of many nodes, by kubectl. As a plugin of kubectl, \\fBkubectl ipvs\\-proxy\\fR has them without the word fleet.
${Object.entries(FLEET_COMMANDS)
  .map(([name, command]) => commandEntry([`fleet ${name}`, command]))
  .join('\n')}
.SH OPTIONS
${groups.join('\n')}
.SH FILES
.TP
.I /etc/kube\\-ipvs\\-proxy/config.conf
The KubeProxyConfiguration that the systemd unit reads.
.SH EXIT STATUS
0 after SIGTERM, SIGINT or an action such as \\fB\\-\\-cleanup\\fR; otherwise, the log says why. Of a subcommand: 0 if all is
as wanted, 1 if something is wrong, 2 if the question could not be asked.
.SH SEE ALSO
.BR ipvsadm (8),
.BR ipset (8),
.BR iptables (8),
.BR nft (8)
`;
}
