import { runCommand } from '../../src/command/program/run-command.ts';

/** Runs `kube-ipvs-proxy fleet` in this process. */
export async function runFleet(
  ...argv: string[]
): Promise<{ readonly code: number; readonly out: string; readonly err: string }> {
  const out: string[] = [];
  const err: string[] = [];
  const code = await runCommand(['fleet', ...argv], { out: (line) => out.push(line), err: (line) => err.push(line) });
  return { code, out: out.join('\n'), err: err.join('\n') };
}
