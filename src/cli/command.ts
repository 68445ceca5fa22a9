import { Command, Option } from 'commander';
import { FLAGS } from '../config/flag-table.ts';
import type { Flag } from '../config/flag.ts';
import { kindOfFlag } from '../config/flag-values.ts';

const DESCRIPTION =
  "Keeps this node's kernel as Services and EndpointSlices demand, the way kube-proxy's ipvs mode does: IPVS virtual servers, ipsets, " +
  'the addresses of kube-ipvs0 and a few iptables rules. It takes the flags and the configuration file of kube-proxy.';

function helpText(flag: Flag): string {
  const remarks = [
    ...(flag.default === '' || flag.name === 'help' ? [] : [`default ${flag.default}`]),
    ...(flag.deprecated === undefined ? [] : [`deprecated: ${flag.deprecated}`]),
  ];
  return remarks.length === 0 ? flag.help : `${flag.help} (${remarks.join('; ')})`;
}

function toOption(flag: Flag): Option {
  const short = flag.short === undefined ? '' : `-${flag.short}, `;
  const hint = flag.bare === 'true' && flag.name !== 'version' ? '' : ` <${flag.hint ?? kindOfFlag(flag).hint}>`;
  return new Option(`${short}--${flag.name}${hint}`, helpText(flag)).helpGroup(`${flag.group}:`);
}

/** The command as --help prints it: the flag table in groups. */
export function helpCommand(columns = 100): Command {
  const command = new Command('kube-ipvs-proxy')
    .usage('--proxy-mode=ipvs [flags]')
    .description(DESCRIPTION)
    .helpOption(false)
    .configureHelp({ helpWidth: columns });
  for (const flag of FLAGS) command.addOption(toOption(flag));
  return command;
}

/** The command as it reads a command line: every flag takes a value, each one given is reported in order. */
export function readingCommand(onFlag: (name: string, text: string) => void): Command {
  const command = new Command('kube-ipvs-proxy')
    .helpOption(false)
    .exitOverride()
    .configureOutput({ writeErr: () => undefined });
  for (const flag of FLAGS) {
    const short = flag.short === undefined ? '' : `-${flag.short}, `;
    command.addOption(
      new Option(`${short}--${flag.name} <value>`).argParser((text: string) => {
        onFlag(flag.name, text);
        return text;
      }),
    );
  }
  return command;
}
