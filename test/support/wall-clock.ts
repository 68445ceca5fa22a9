import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';

/** A test kernel has its own clock, which is set. The machine's is never set: only the daemon sees another time. */
const OWN_KERNEL = ['uml', 'qemu', 'uml-nft'].includes(process.env['KERNEL_USED'] ?? '');

const SHIM = `
import { readFileSync } from 'node:fs';
const RealDate = Date;
const now = () => RealDate.now() + Number(readFileSync(process.env.WALL_CLOCK_STEP, 'utf8'));
globalThis.Date = class extends RealDate {
  constructor(...parts) {
    super(...(parts.length === 0 ? [now()] : parts));
  }
  static now() {
    return now();
  }
};
`;

/** The wall clock of a daemon. It can be set; disposal restores it. */
export class WallClock implements Disposable {
  readonly #stepFile: string;
  readonly #startedAt = performance.now();
  readonly #wallAtStart = Date.now();

  /** @param folder for two small files */
  constructor(folder: string) {
    this.#stepFile = `${folder}/wall-clock-step`;
    this.#shim = `${folder}/wall-clock-shim.mjs`;
    writeFileSync(this.#stepFile, '0');
    writeFileSync(this.#shim, SHIM);
  }

  readonly #shim: string;

  /** Returns the daemon's command line and environment, changed so that its clock can be set. */
  prepare(argv: readonly string[]): { readonly argv: readonly string[]; readonly env: NodeJS.ProcessEnv } {
    const [node = '', ...rest] = argv;
    if (OWN_KERNEL) return { argv, env: process.env };
    return {
      argv: [node, `--import=${this.#shim}`, ...rest],
      env: { ...process.env, WALL_CLOCK_STEP: this.#stepFile },
    };
  }

  /** Sets the clock to the true time plus `seconds`. */
  set(seconds: number): void {
    if (!OWN_KERNEL) writeFileSync(this.#stepFile, String(seconds * 1_000));
    else execFileSync('date', ['-u', '-s', `@${Math.round(this.#trueNow() / 1_000) + seconds}`]);
  }

  [Symbol.dispose](): void {
    this.set(0);
  }

  #trueNow(): number {
    return this.#wallAtStart + (performance.now() - this.#startedAt);
  }
}
