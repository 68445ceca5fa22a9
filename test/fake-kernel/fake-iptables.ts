import type { IpFamily } from '../../src/base/ip.ts';
import { splitRule } from '../../src/kernel/iptables/iptables-rule.ts';
import { KernelError } from '../../src/kernel/kernel-error.ts';
import type { IptablesPort } from '../../src/kernel/iptables-mode/iptables-port.ts';

type Chains = Map<string, string[]>;
type Tables = Map<string, Chains>;

const BUILT_IN: Readonly<Record<string, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
};

/** Targets that are no chains. */
const TARGETS = new Set(['ACCEPT', 'DROP', 'REJECT', 'RETURN', 'MARK', 'DNAT', 'MASQUERADE']);

function empty(): Tables {
  return new Map(
    Object.entries(BUILT_IN).map(([table, names]) => [table, new Map(names.map((name) => [name, [] as string[]]))]),
  );
}

/** The programs of iptables in memory: as they do, it executes each table of a script as a whole or not at all. */
export class FakeIptables implements IptablesPort {
  readonly tables: Record<IpFamily, Tables> = { 4: empty(), 6: empty() };
  /** The scripts that were executed. */
  readonly scripts: string[] = [];
  reads = 0;
  /** The scripts that were executed or refused. */
  writes = 0;
  /** Refuses the tables of scripts, before which a script has this number of lines; for tests of what becomes of the rest. */
  refuse: (section: string, linesBefore: number) => string | undefined = () => undefined;

  /** Whether a script ends with a failure after its first table. */
  interrupted = false;

  probe(): Promise<string> {
    return Promise.resolve('nft');
  }

  find(): Promise<string> {
    return Promise.resolve('nft');
  }

  /** What iptables-restore --test says on stderr. */
  warnings = '';
  /** What it says if it fails. */
  testFailure: string | undefined;

  test(): Promise<string> {
    if (this.testFailure !== undefined) return refused(this.testFailure);
    return Promise.resolve(this.warnings);
  }

  generation: () => Promise<number | undefined> = () => Promise.resolve(undefined);

  read(family: IpFamily): Promise<string> {
    this.reads += 1;
    let text = '';
    for (const [table, chains] of this.tables[family]) {
      text += `*${table}\n`;
      for (const name of [...chains.keys()].sort()) text += `:${name} - [0:0]\n`;
      for (const name of [...chains.keys()].sort())
        for (const rule of chains.get(name)!) text += `-A ${name} ${rule}\n`;
      text += 'COMMIT\n';
    }
    return Promise.resolve(text);
  }

  write(family: IpFamily, script: string): Promise<void> {
    this.writes += 1;
    let number = 0;
    for (const section of script.split(/(?<=COMMIT\n)/)) {
      if (section === '') continue;
      const reason = this.refuse(section, number);
      if (reason !== undefined) return refused(reason);
      const [head = '', ...lines] = section.replace('COMMIT\n', '').trimEnd().split('\n');
      const table = head.slice(1);
      const chains: Chains = new Map(
        Array.from(this.tables[family].get(table) ?? new Map<string, string[]>(), ([name, rules]) => [
          name,
          [...rules],
        ]),
      );
      for (const [index, line] of lines.entries()) {
        const why = execute(chains, line);
        if (why !== undefined) return refused(`line ${number + index + 2} failed: ${why}`);
      }
      number += lines.length + 2;
      const why = brokenReference(chains);
      if (why !== undefined) return refused(why);
      this.tables[family].set(table, chains);
      if (this.interrupted) return refused('interrupted');
    }
    this.scripts.push(script);
    return Promise.resolve();
  }

  /** Changes the tables, as another program does. */
  change(family: IpFamily, table: string, change: (chains: Chains) => void): void {
    change(this.tables[family].get(table)!);
  }
}

function refused(reason: string): Promise<never> {
  return Promise.reject(new KernelError('iptables', 'IPTABLES', `iptables-restore failed with status 1: ${reason}`));
}

/** Executes a line. Returns why it is not possible. */
function execute(chains: Chains, line: string): string | undefined {
  const declared = /^:(\S+) /.exec(line)?.[1];
  if (declared !== undefined) {
    chains.set(declared, []);
    return undefined;
  }
  const [, verb, name = '', rule = ''] = /^-([AIDX]) (\S+) ?(.*)$/.exec(line) ?? [];
  const rules = chains.get(name);
  if (verb === undefined || rules === undefined) return 'no such chain';
  if (verb === 'A') rules.push(rule);
  if (verb === 'I') rules.unshift(rule);
  if (verb === 'X') {
    if (rules.length > 0) return 'chain is not empty';
    if ([...chains.values()].some((others) => others.some((other) => splitRule(other).includes(name)))) {
      return 'Device or resource busy';
    }
    chains.delete(name);
  }
  if (verb === 'D') {
    const at = rules.indexOf(rule);
    if (at < 0) return 'no such rule';
    rules.splice(at, 1);
  }
  return undefined;
}

function brokenReference(chains: Chains): string | undefined {
  for (const [name, rules] of chains) {
    for (const rule of rules) {
      const words = splitRule(rule);
      const target = words[words.indexOf('-j') + 1] ?? '';
      if (words.includes('-j') && !TARGETS.has(target) && !chains.has(target)) return `${name} refers to ${target}`;
    }
  }
  return undefined;
}
