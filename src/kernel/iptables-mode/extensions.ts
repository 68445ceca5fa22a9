import { type IpFamily, familyLabel } from '../../base/ip.ts';
import { declaration, tableScript } from '../iptables/iptables-script.ts';
import { mayBeCausedByRules } from '../iptables/iptables-failure.ts';
import { KernelError } from '../kernel-error.ts';
import type { IptablesPort } from './iptables-port.ts';
import { comment, isRemembered, oneIn, reject } from './render/rule-text.ts';
import type { Table } from './render/service-port.ts';

/** A match or target of iptables that the rules of this mode use. */
interface Extension {
  readonly name: string;
  /** The kernel module that has it. */
  readonly module: string;
  readonly table: Table;
  /** A rule that uses it, and needs no other extension. */
  readonly rule: string;
  /** Which Services do not work without it; absent: none works. */
  readonly onlyFor?: DependentServices;
}

/** Services that need an extension of their own, in words. */
export type DependentServices = 'Services with session affinity' | 'Services with SCTP ports';

/** An extension that only some Services need and that the kernel lacks. */
export interface MissingExtension {
  readonly services: DependentServices;
  /** The lack, as one sentence. */
  readonly text: string;
}

const CHAIN = 'KUBE-EXTENSION-PROBE';

function extensionsOf(family: IpFamily): readonly Extension[] {
  const address = family === 4 ? '192.0.2.1:1' : '[2001:db8::1]:1';
  return [
    { name: 'comment', module: 'xt_comment', table: 'nat', rule: comment('a probe') },
    { name: 'addrtype', module: 'xt_addrtype', table: 'nat', rule: '-m addrtype --dst-type LOCAL' },
    { name: 'mark', module: 'xt_mark', table: 'nat', rule: '-m mark ! --mark 0x1/0x1' },
    { name: 'statistic', module: 'xt_statistic', table: 'nat', rule: oneIn(2) },
    { name: 'MARK', module: 'xt_mark', table: 'nat', rule: '-j MARK --or-mark 0x1' },
    { name: 'DNAT', module: 'xt_nat', table: 'nat', rule: `-p tcp -j DNAT --to-destination ${address}` },
    { name: 'MASQUERADE', module: 'xt_MASQUERADE', table: 'nat', rule: '-j MASQUERADE' },
    { name: 'conntrack', module: 'xt_conntrack', table: 'filter', rule: '-m conntrack --ctstate INVALID' },
    { name: 'REJECT', module: family === 4 ? 'ipt_REJECT' : 'ip6t_REJECT', table: 'filter', rule: reject(family) },
    {
      name: 'recent',
      module: 'xt_recent',
      table: 'nat',
      rule: isRemembered(CHAIN, 1, family),
      onlyFor: 'Services with session affinity',
    },
    {
      name: 'sctp',
      module: 'xt_sctp',
      table: 'nat',
      rule: '-p sctp -m sctp --dport 1',
      onlyFor: 'Services with SCTP ports',
    },
  ];
}

/**
 * Returns what only some Services need and the kernel lacks. Rejects with the code UNSUPPORTED if it lacks an extension without
 * which none works. Writes nothing, unless iptables-restore --test says that something may be missing.
 */
export async function requireExtensions(port: IptablesPort, family: IpFamily): Promise<readonly MissingExtension[]> {
  const lacks: MissingExtension[] = [];
  const extensions = extensionsOf(family);
  const script = (['nat', 'filter'] as const).map((table) =>
    scriptOf(
      table,
      extensions.filter((extension) => extension.table === table).map(({ rule }) => `-A ${CHAIN} ${rule}`),
    ),
  );
  // iptables also warns of extensions that it can do without.
  const doubtful = await doubtfulNames(port, family, script.join(''));
  for (const { name, module, table, rule, onlyFor } of extensions.filter((extension) => doubtful.has(extension.name))) {
    const reason = await refusal(port, family, table, rule);
    if (reason === undefined) continue;
    const text = `this kernel lacks the iptables extension ${name} for ${familyLabel(family)}: load the module ${module}`;
    if (onlyFor === undefined) throw new KernelError('iptables', 'UNSUPPORTED', text, { cause: reason });
    lacks.push({ services: onlyFor, text });
  }
  return lacks;
}

/** Returns the extensions that iptables-restore --test says the kernel lacks. */
async function doubtfulNames(port: IptablesPort, family: IpFamily, script: string): Promise<ReadonlySet<string>> {
  try {
    return namesIn(await port.test(family, script));
  } catch (error) {
    const names = error instanceof KernelError ? namesIn(error.message) : new Set<string>();
    if (names.size === 0) throw error;
    return names;
  }
}

function namesIn(words: string): ReadonlySet<string> {
  const found = words.matchAll(/Extension (\w+) .*not supported|Couldn't load (?:match|target) `(\w+)'/g);
  return new Set([...found].map(([, warned, refused = '']) => warned ?? refused));
}

/** Writes the rule, and removes it again. Returns the error if the kernel refuses it. */
async function refusal(
  port: IptablesPort,
  family: IpFamily,
  table: Table,
  rule: string,
): Promise<KernelError | undefined> {
  try {
    await port.write(family, scriptOf(table, [`-A ${CHAIN} ${rule}`]));
  } catch (error) {
    if (error instanceof KernelError && mayBeCausedByRules(error)) return error;
    throw error;
  }
  await port.write(family, scriptOf(table, [`-X ${CHAIN}`]));
  return undefined;
}

/** The declaration creates the chain or, if it exists, empties it. */
function scriptOf(table: Table, lines: readonly string[]): string {
  return tableScript(table, [declaration(CHAIN), ...lines]);
}
