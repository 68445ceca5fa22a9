import { FLAGS, FLAG_GROUPS, type Flag } from '../config/flag-table.ts';
import { defaultText, helpOf } from '../config/setting.ts';
import { bool } from '../config/value-kind.ts';

const USAGE =
  'Usage: kube-ipvs-proxy --proxy-mode=ipvs|nftables|iptables [flags]\n       kube-ipvs-proxy status|explain|top|diff|plan --help';

const DESCRIPTION =
  "Programs this node's kernel for Services and EndpointSlices. In ipvs mode: IPVS virtual servers, ipsets, the addresses of " +
  'kube-ipvs0 and a few iptables rules. In nftables mode: the tables kube-proxy of nf_tables. In iptables mode: chains of iptables. ' +
  'Takes the flags and the configuration file of kube-proxy.';

/** Minimum width of the flags' descriptions, even on a narrower terminal. */
const MIN_TEXT = 40;

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

function termOf({ short, name, kind, hint }: Flag): string {
  return `${short === undefined ? '' : `-${short}, `}--${name}${kind === bool ? '' : ` <${hint ?? kind.hint}>`}`;
}

function textFor(flag: Flag): string {
  const text = defaultText(flag);
  const remarks = [
    ...(text === '' || flag.name === 'help' ? [] : [`default ${text}`]),
    ...(flag.deprecated === undefined ? [] : [`deprecated: ${flag.deprecated}`]),
  ];
  return remarks.length === 0 ? helpOf(flag) : `${helpOf(flag)} (${remarks.join('; ')})`;
}

/** Returns the text of --help: the flags by group, wrapped to the width of the terminal. */
export function helpText(columns = 100): string {
  const indent = Math.max(...FLAGS.map((flag) => termOf(flag).length)) + 4;
  const width = Math.max(MIN_TEXT, columns - indent);
  const groups = FLAG_GROUPS.map((group) => {
    const flags = FLAGS.filter((flag) => flag.group === group).map((flag) => {
      const text = wrap(textFor(flag), width).join(`\n${' '.repeat(indent)}`);
      return `  ${termOf(flag).padEnd(indent - 2)}${text}`;
    });
    return [`${group}:`, ...flags].join('\n');
  });
  return [USAGE, wrap(DESCRIPTION, columns).join('\n'), ...groups].join('\n\n');
}
