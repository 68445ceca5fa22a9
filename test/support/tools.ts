import { spawnSync } from 'node:child_process';

/** Exit status of scripts/go-tool.sh on a machine without Go, and of scripts/promtool.sh without apt-get. */
const IMPOSSIBLE = 3;

function pathsFrom(script: string, names: readonly string[]): readonly string[] | undefined {
  const { status, stdout, stderr } = spawnSync(script, names, { encoding: 'utf8' });
  if (status === IMPOSSIBLE) return undefined;
  if (status !== 0) throw new Error(`${script} failed: ${stderr}`);
  return stdout.trimEnd().split('\n');
}

/** Returns the paths of tools that are built from Go modules, or undefined if this machine has no Go. */
export function goTools(...names: readonly string[]): readonly string[] | undefined {
  return pathsFrom('scripts/go-tool.sh', names);
}

/** Returns the path of promtool, or undefined if this machine has no apt-get. */
export function promtoolPath(): string | undefined {
  return pathsFrom('scripts/promtool.sh', [])?.[0];
}
