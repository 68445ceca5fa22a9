import type { ProxyMode } from '../../src/base/proxy-mode.ts';

export interface Options {
  readonly mode: (typeof MODES)[number];
  readonly cases: number;
  readonly seed: number;
  /** The only case to play, and to shrink if it fails. */
  readonly only: number | undefined;
}

/** Modes that can be judged. */
export const MODES = ['ipvs', 'nftables', 'iptables', 'userspace'] as const satisfies readonly ProxyMode[];

/** Reads `CASES=2000 SEED=1 MODE=ipvs ONLY=17`; an empty value is the default. Throws if one is not valid. */
export function parseOptions(argv: readonly string[]): Options {
  const given = new Map(argv.map((argument) => argument.split('=', 2) as [string, string]));
  const number = (name: string, usual: number): number => {
    const text = given.get(name) || `${usual}`;
    if (!/^\d{1,9}$/.test(text)) throw new RangeError(`${name}=${text} is not a number: want one such as ${usual}`);
    return Number(text);
  };
  const word = given.get('MODE') || 'ipvs';
  const mode = MODES.find((each) => each === word);
  if (mode === undefined) throw new RangeError(`MODE=${word} cannot be judged: want one of ${MODES.join(', ')}`);
  const only = given.get('ONLY') ? number('ONLY', 0) : undefined;
  return { mode, cases: number('CASES', 2_000), seed: number('SEED', 1), only };
}
