import { loadConfig } from '../config/load-config.ts';
import { ConfigError } from '../config/value/problem.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';
import { longVersion } from '../config/version.ts';
import type { GivenSettings } from '../config/flags/settings.ts';
import { flagProgram } from './flag-program.ts';
import { parseArgv } from './parse-argv.ts';
import { writeConfig } from './write-config.ts';

/** One function for each action, and one for the subcommands. Each resolves with the exit code. */
export type Verbs = Readonly<Record<ProxyConfig['action'], (config: ProxyConfig) => Promise<number>>> & {
  readonly command: (argv: readonly string[], terminal: Terminal) => Promise<number>;
};

/** Standard output and standard error. Lines are passed without a newline. */
export interface Terminal {
  out(line: string): void;
  err(line: string): void;
  /** Width of the terminal in characters; undefined if unknown. */
  columns?(): number | undefined;
}

function fail(terminal: Terminal, sentences: readonly string[]): number {
  for (const sentence of sentences) terminal.err(`kube-ipvs-proxy: ${sentence}`);
  return 1;
}

async function start(given: GivenSettings, verbs: Verbs, terminal: Terminal): Promise<number> {
  let config: ProxyConfig;
  try {
    config = await loadConfig(given);
  } catch (error) {
    if (error instanceof ConfigError) return fail(terminal, error.problems);
    throw error;
  }
  const { writeConfigTo } = config.settings;
  return writeConfigTo === undefined ? verbs[config.action](config) : writeConfig(writeConfigTo, config, terminal);
}

/** Width of --help where that of the terminal is not known. */
const HELP_COLUMNS = 100;

/** Returns what --version prints. Unlike kube-proxy, --version=vX.Y.Z does not change the printed version. */
export function versionText(request: string): string {
  const version = `kube-ipvs-proxy ${longVersion()}`;
  if (request !== 'raw') return version;
  return `${version}, Node.js ${process.version}, V8 ${process.versions.v8}, ${process.platform}/${process.arch}`;
}

/** Returns what --help prints: the flags by group, wrapped to the width of the terminal. */
function helpText(terminal: Terminal, all: boolean): string {
  const program = flagProgram({ all });
  const helpWidth = terminal.columns?.() ?? HELP_COLUMNS;
  return program
    .configureHelp({ ...program.configureHelp(), helpWidth })
    .helpInformation()
    .trimEnd();
}

/** Runs the program and returns the exit code. Startup errors go to `err`, one sentence each, with exit code 1. */
export async function runCli(argv: readonly string[], verbs: Verbs, terminal: Terminal): Promise<number> {
  // Every setting is a flag, so a first argument without a dash is the name of a subcommand.
  const [first = '', second = ''] = argv.filter((argument) => argument !== '');
  if (/^[^-]/.test(first)) return verbs.command(argv.slice(argv.indexOf(first)), terminal);
  if (/^(-h|--help)$/.test(first) && /^[^-]/.test(second)) return verbs.command([second, '--help'], terminal);
  const parsed = parseArgv(argv);
  if (!parsed.ok) return fail(terminal, parsed.errors);
  const { help = false, helpAll = false, version = 'false' } = parsed.given;
  const asksHelp = help || helpAll;
  if (!asksHelp && version === 'false') return start(parsed.given, verbs, terminal);
  terminal.out(asksHelp ? helpText(terminal, helpAll) : versionText(version));
  return 0;
}
