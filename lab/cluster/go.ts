import { type CommandResult, CommandError, runCommand } from '../../test/bed/command.ts';

/** Where Go's own archive is unpacked, as its documentation advises; often not in PATH. */
const USUAL_FOLDER = '/usr/local/go/bin';

const WANTED = 'Go 1.25 or newer in PATH, see https://go.dev/doc/install';

/** The environment in which `go` is found. */
export function goEnvironment(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  return { ...env, PATH: `${env['PATH'] ?? ''}:${USUAL_FOLDER}` };
}

/** Why Go cannot build Kubernetes on this machine; undefined if it can. */
export async function goMissing(): Promise<string | undefined> {
  let found: CommandResult;
  try {
    found = await runCommand(['go', 'env', 'GOVERSION'], { env: goEnvironment() });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return `building Kubernetes needs ${WANTED}`;
  }
  const version = found.stdout.trim();
  return tooOld(version) ? `${version} is too old: building Kubernetes needs ${WANTED}` : undefined;
}

/** Versions that are no release, such as `devel go1.27-abc`, count as new. */
export function tooOld(version: string): boolean {
  const [, major, minor] = /^go(\d+)\.(\d+)/.exec(version) ?? [];
  return Number(major) === 1 && Number(minor) < 25;
}
