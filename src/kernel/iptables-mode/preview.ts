import type { IpFamily } from '../../base/ip.ts';
import type { Op } from '../../state/op.ts';
import { type Preview, type PreviewCommand, withInput } from '../../state/commands/write-preview.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import { LOCK_SECONDS } from '../iptables/iptables-programs.ts';
import { type IptablesVariant, programName } from '../iptables/iptables-variant.ts';
import { NO_MODE_OBSERVER } from '../mode-observer.ts';
import { OwnTransactions } from '../own-transactions.ts';
import { FamilyTables } from './family-tables.ts';
import type { IptablesPort } from './iptables-port.ts';

/** Returns the scripts for iptables-restore that would establish the rules and then the parts. */
export async function previewOf(
  base: IptablesPort,
  rules: readonly RuleSet[],
  parts: readonly (readonly Op[])[],
): Promise<Preview> {
  const port = new PreviewPort(base);
  const options = { port, own: new OwnTransactions(), log: SILENT, observer: NO_MODE_OBSERVER, maxAgeMs: Infinity };
  const tables = new Map<IpFamily, FamilyTables>();
  for (const { family, settings } of rules) {
    if (settings === undefined) continue;
    const ofFamily = new FamilyTables(family, options);
    await ofFamily.ensure(settings);
    tables.set(family, ofFamily);
  }
  const ofRules = port.takeCommands();
  const ofParts: (readonly PreviewCommand[])[] = [];
  for (const part of parts) {
    for (const ofFamily of tables.values()) await ofFamily.apply(part);
    ofParts.push(port.takeCommands());
  }
  return { rules: ofRules, parts: ofParts };
}

const SILENT = { info: () => undefined };

/** The programs of iptables, except that scripts are recorded and not run. */
class PreviewPort implements IptablesPort {
  readonly #base: IptablesPort;
  #commands: PreviewCommand[] = [];

  constructor(base: IptablesPort) {
    this.#base = base;
  }

  /** Returns the commands for what was written since the last call. */
  takeCommands(): readonly PreviewCommand[] {
    const commands = this.#commands;
    this.#commands = [];
    return commands;
  }

  async write(family: IpFamily, script: string): Promise<void> {
    const program = programName((await this.#base.find(family)) as IptablesVariant, family, 'restore');
    this.#commands.push({ command: withInput(`${program} --noflush --wait=${LOCK_SECONDS}`, script) });
  }

  /** A reading never becomes outdated, because nothing is written. */
  generation(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  readonly probe: IptablesPort['probe'] = (family) => this.#base.find(family);
  readonly find: IptablesPort['find'] = (family) => this.#base.find(family);
  readonly read: IptablesPort['read'] = (family) => this.#base.read(family);
  readonly test: IptablesPort['test'] = () => Promise.resolve('');
}

/** Returns what previewOf() does on a node without rules. */
export async function previewOfNothing(rules: readonly RuleSet[], parts: readonly (readonly Op[])[]): Promise<Preview> {
  return await previewOf(NO_RULES, rules, parts);
}

const NO_RULES: IptablesPort = {
  probe: () => Promise.resolve('system'),
  find: () => Promise.resolve('system'),
  test: () => Promise.resolve(''),
  read: () => Promise.resolve(''),
  generation: () => Promise.resolve(undefined),
  write: () => Promise.resolve(),
};
