import { type FlagValues, boolFlag, textFlag } from '../config/flag-values.ts';
import { loadConfig } from '../config/load-config.ts';
import { ConfigError } from '../config/problem.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';
import { helpCommand } from './command.ts';
import { parseArgv } from './parse-argv.ts';
import { versionText } from './version-text.ts';
import { writeConfig } from './write-config.ts';

/** What each action does with the configuration; resolves with the exit code. */
export type Verbs = Readonly<Record<ProxyConfig['action'], (config: ProxyConfig) => Promise<number>>>;

/** Where text goes; lines come without a newline. */
export interface Terminal {
  out(line: string): void;
  err(line: string): void;
  /** Width for the help. */
  columns?(): number | undefined;
}

function fail(terminal: Terminal, sentences: readonly string[]): number {
  for (const sentence of sentences) terminal.err(`kube-ipvs-proxy: ${sentence}`);
  return 1;
}

async function start(flags: FlagValues, verbs: Verbs, terminal: Terminal): Promise<number> {
  let config: ProxyConfig;
  try {
    config = await loadConfig(flags);
  } catch (error) {
    if (error instanceof ConfigError) return fail(terminal, error.problems);
    throw error;
  }
  const target = textFlag(flags, 'write-config-to');
  return target === '' ? verbs[config.action](config) : writeConfig(target, config, terminal);
}

/** From the arguments behind the program's name to the exit code. Whatever is wrong at the start is a sentence on `err` and a 1. */
export async function runCli(argv: readonly string[], verbs: Verbs, terminal: Terminal): Promise<number> {
  const parsed = parseArgv(argv);
  if (!parsed.ok) return fail(terminal, parsed.errors);
  const { flags } = parsed;
  if (boolFlag(flags, 'help')) {
    terminal.out(helpCommand(terminal.columns?.()).helpInformation().trimEnd());
    return 0;
  }
  const version = versionText(textFlag(flags, 'version') || 'false');
  if (version !== undefined) {
    if ('error' in version) return fail(terminal, [version.error]);
    terminal.out(version.text);
    return 0;
  }
  return start(flags, verbs, terminal);
}
