import { counted } from '../base/text/counted.ts';
import type { OtherRule, PacketEndpoint, PacketReply, PacketStep } from '../explain/replies.ts';
import { aligned, wrapped } from './output.ts';

const ORIGINS: Readonly<Record<PacketReply['origin'], string>> = {
  'this node': 'this node',
  'Pod of this node': 'a Pod of this node',
  'Pod of another node': 'a Pod of another node',
  outside: 'a client outside',
};

export function packetLines({
  verdict,
  origin,
  use,
  service,
  steps,
  endpoints,
  otherRules,
  otherChains,
  lookedAt,
  notes,
  commands,
}: PacketReply): string[] {
  const to = service === undefined ? '' : ` to the ${use} of ${service}`;
  return [
    ...wrapped(verdict),
    '',
    ...wrapped(`from ${ORIGINS[origin]}${to}`),
    ...notes.flatMap((note) => wrapped(`note: ${note}`)),
    ...section('way', aligned(steps.map(stepRow))),
    ...section('endpoints', aligned(endpoints.map(endpointRow))),
    ...section('rules of other programs', aligned(otherRules.map(otherRow))),
    ...section('chains of nf_tables of other programs, not looked into', aligned(otherChains.map((chain) => [chain]))),
    ...section(
      'commands that bring the kernel to the plan',
      commands.flatMap((command) => (command.includes('\n') ? command.split('\n') : [`  ${command}`])),
    ),
    '',
    ...wrapped(`looked at ${lookedAt}`),
  ];
}

function otherRow({ table, hook, chain, rule, effect, matches }: OtherRule): string[] {
  return [`${table} ${hook}`, chain === hook ? '' : chain, `${matches ? '' : 'may match: '}${effect}`, rule];
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : ['', title, ...lines];
}

function stepRow({ hook, table, chain, rule, entries, packets }: PacketStep): string[] {
  const matched = entries.map((entry) => ` [${entry}]`).join('');
  return [
    `${table} ${hook}`,
    chain ?? '',
    packets === undefined ? '' : counted(packets, 'packet'),
    `${rule}${matched}`,
  ];
}

function endpointRow({ at, sees, masqueraded, answers }: PacketEndpoint): string[] {
  return [at, `sees ${sees}`, `${masqueraded ? 'masqueraded' : 'kept'}${answers ? '' : ', cannot answer'}`];
}
