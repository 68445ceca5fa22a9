import { spawnSync } from 'node:child_process';

/** Exit status of scripts/go-tool.sh on a machine without Go. */
const NO_GO = 3;

/** Returns the paths of tools that are built from Go modules, or undefined if this machine has no Go. */
export function goTools(...names: readonly string[]): readonly string[] | undefined {
  const { status, stdout, stderr } = spawnSync('scripts/go-tool.sh', names, { encoding: 'utf8' });
  if (status === NO_GO) return undefined;
  if (status !== 0) throw new Error(`scripts/go-tool.sh failed: ${stderr}`);
  return stdout.trimEnd().split('\n');
}
