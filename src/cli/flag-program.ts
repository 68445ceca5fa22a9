import { Command, Option } from 'commander';
import { FLAGS, type Flag, flagNamed } from '../config/flags/flag-table.ts';
import { defaultText, helpOf } from '../config/flags/setting.ts';
import { bool } from '../config/value/value-kind.ts';

const SUBCOMMANDS = [
  'status',
  'explain',
  'services',
  'top',
  'diff',
  'plan',
  'support',
  'connect',
  'fleet',
  'completion',
  'version',
  'help',
];

const DESCRIPTION =
  "Programs this node's kernel for Services and EndpointSlices. In ipvs mode: IPVS virtual servers, ipsets, the addresses of " +
  'kube-ipvs0 and a few iptables rules. In nftables mode: the tables kube-proxy of nf_tables. In iptables mode: chains of iptables. ' +
  'Takes the flags and the configuration file of kube-proxy.';

/**
 * Returns the parser of the daemon's flags, which is also the text of --help. Flags without effect are neither shown nor
 * suggested, unless `all`. `take` gets each flag of the command line with its text.
 */
export function flagProgram({ all = false, take }: { all?: boolean; take?: (flag: Flag, text: string) => void } = {}) {
  const program = new Command('kube-ipvs-proxy')
    .usage(`--proxy-mode=ipvs|nftables|iptables [flags]\n       kube-ipvs-proxy ${SUBCOMMANDS.join('|')} --help`)
    .description(DESCRIPTION)
    .helpOption(false)
    .allowExcessArguments()
    .exitOverride()
    .configureOutput({ writeErr: () => undefined })
    .configureHelp({ optionTerm });
  for (const flag of FLAGS) {
    const short = flag.short === undefined ? '' : `-${flag.short}, `;
    const option = new Option(`${short}--${flag.name} <${flag.hint ?? flag.kind.hint}>`, textFor(flag))
      .helpGroup(`${flag.group}:`)
      .hideHelp(flag.ignored !== undefined && !all)
      .argParser((text) => take?.(flag, text));
    program.addOption(option);
  }
  return program;
}

/** A boolean is named without its value. */
function optionTerm({ flags, long }: Option): string {
  const named = flagNamed(long?.replace(/^--/, '') ?? '');
  return named?.kind === bool ? flags.replace(/ <.*$/, '') : flags;
}

function textFor(flag: Flag): string {
  const text = defaultText(flag);
  const remarks = [
    ...(text === '' || flag.name.startsWith('help') ? [] : [`default ${text}`]),
    ...(flag.deprecated === undefined ? [] : [`deprecated: ${flag.deprecated}`]),
  ];
  return remarks.length === 0 ? helpOf(flag) : `${helpOf(flag)} (${remarks.join('; ')})`;
}
