import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type CommandResult, runCommand } from '../../test/bed/command.ts';
import type { Cache } from './folders.ts';
import { goEnvironment, goMissing } from './go.ts';
import { exists } from './packages.ts';
import { PROGRAMS, type Program, linkerFlags, stagedModules, stagedVersion } from './programs.ts';
import { SettingsError } from './settings.ts';

/** e2e.test takes three minutes on two idle cores; other builds may run beside. */
const BUILD_TIMEOUT_MS = 3_600_000;

/** Builds the named programs of a Kubernetes version that the cache lacks. `say` gets a line for each. */
export async function buildPrograms(
  kubernetes: string,
  cache: Cache,
  names: readonly string[],
  say: (line: string) => void,
): Promise<void> {
  const missing: Program[] = [];
  for (const program of PROGRAMS) {
    if (names.includes(program.name) && !(await exists(path.join(cache.bin, program.name)))) missing.push(program);
  }
  if (missing.length === 0) return;
  await requireGo();
  await mkdir(cache.bin, { recursive: true });
  say(`building ${missing.map(({ name }) => name).join(', ')}, once for all checkouts, in ${cache.bin}`);
  for (const program of missing) {
    const before = performance.now();
    await build(program, kubernetes, cache);
    say(`${program.name}: built in ${Math.round((performance.now() - before) / 1000)} s`);
  }
}

async function requireGo(): Promise<void> {
  const why = await goMissing();
  if (why !== undefined) throw new SettingsError(why);
}

async function build(program: Program, kubernetes: string, cache: Cache): Promise<void> {
  const folder = path.join(cache.modules, program.folder);
  await mkdir(folder, { recursive: true });
  if (program.module === undefined) {
    await ensureKubernetesModule(folder, kubernetes);
  } else if (!(await requires(folder, program.module))) {
    await initModule(folder);
    if (program.main !== undefined) await writeFile(path.join(folder, 'main.go'), program.main);
    await go(folder, ['get', program.module]);
  }
  const out = path.join(cache.bin, program.name);
  const command = program.test === true ? ['test', '-c', '-vet=off'] : ['build'];
  const tags = program.tags === undefined ? [] : ['-tags', program.tags.join(',')];
  const flags = [...tags, '-trimpath', '-ldflags', linkerFlags(kubernetes), '-o', `${out}.new`];
  await go(folder, [...command, ...flags, program.package]);
  // Complete or absent: another start may look for it.
  await rename(`${out}.new`, out);
}

/** Kubernetes replaces modules by folders of its own repository; a module that depends on it must name their versions. */
async function ensureKubernetesModule(folder: string, kubernetes: string): Promise<void> {
  const module = `k8s.io/kubernetes@v${kubernetes}`;
  if (await requires(folder, module)) return;
  await initModule(folder);
  const goMod = (await go(folder, ['list', '-m', '-f', '{{.GoMod}}', module])).stdout.trim();
  const version = stagedVersion(kubernetes);
  const replaced = stagedModules(await readFile(goMod, 'utf8')).map((name) => `-replace=${name}=${name}@v${version}`);
  await go(folder, ['mod', 'edit', ...replaced]);
  await go(folder, ['get', module]);
}

/** Whether the go.mod of the folder requires a module, written PATH@VERSION: `go get` adds it at its end. */
async function requires(folder: string, module: string): Promise<boolean> {
  const text = await readFile(path.join(folder, 'go.mod'), 'utf8').catch(() => '');
  return text.includes(module.replace('@', ' '));
}

async function initModule(folder: string): Promise<void> {
  if (!(await exists(path.join(folder, 'go.mod')))) await go(folder, ['mod', 'init', 'cluster']);
}

/** The build of this machine's architecture, without C libraries, so that it runs in any image. */
function go(folder: string, args: readonly string[]): Promise<CommandResult> {
  const env = { ...goEnvironment(), CGO_ENABLED: '0', GOFLAGS: '-mod=mod -buildvcs=false' };
  return runCommand(['go', '-C', folder, ...args], { timeoutMs: BUILD_TIMEOUT_MS, env });
}
