import { loadConfig } from '../config/load-config.ts';
import { ConfigError } from '../config/problem.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';
import { longVersion } from '../config/version.ts';
import type { GivenSettings } from '../config/settings.ts';
import { helpText } from './help.ts';
import { isNotEmpty, parseArgv } from './parse-argv.ts';
import { writeConfig } from './write-config.ts';

/** One function for each action, and one for the subcommands; it resolves with the exit code. */
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

/** Returns what --version prints. Unlike kube-proxy, --version=vX.Y.Z does not change the printed version. */
function versionText(request: string): string {
  const version = `kube-ipvs-proxy ${longVersion()}`;
  if (request !== 'raw') return version;
  return `${version}, Node.js ${process.version}, V8 ${process.versions.v8}, ${process.platform}/${process.arch}`;
}

/** Runs the program and returns the exit code. Startup errors go to `err`, one sentence each, with exit code 1. */
export async function runCli(argv: readonly string[], verbs: Verbs, terminal: Terminal): Promise<number> {
  // Every setting is a flag, so a first argument without a dash is the name of a subcommand.
  const first = argv.find(isNotEmpty);
  if (first?.startsWith('-') === false) return verbs.command(argv.slice(argv.indexOf(first)), terminal);
  const parsed = parseArgv(argv);
  if (!parsed.ok) return fail(terminal, parsed.errors);
  const { help = false, version = 'false' } = parsed.given;
  if (!help && version === 'false') return start(parsed.given, verbs, terminal);
  terminal.out(help ? helpText(terminal.columns?.()) : versionText(version));
  return 0;
}
