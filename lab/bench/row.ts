import type { Measurements } from './measure.ts';
import type { Size } from './size.ts';

/** One measure, or a few that share their preparation; a file of lab/bench/row each. */
export interface Row {
  /** Kebab-case, as the file: what BENCH_ROWS selects by, and the key in lab/results/performance.json. */
  readonly name: string;
  /** It needs no kernel: measured on the host, where a test kernel would make user space many times slower. */
  readonly onHost?: true;
  /** It takes minutes: it runs only if BENCH_ROWS has its whole name. */
  readonly onlyByName?: true;
  /** Measures ours and its baseline alternately, `size.runs` times each by default, and adds the results. */
  readonly run: (out: Measurements, size: Size) => Promise<void>;
}
