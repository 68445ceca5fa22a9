// Loaded into the daemon by NODE_OPTIONS=--import: writes down when its event loop was held up, to the file LOOP_STALLS at its end.
import { writeFileSync } from 'node:fs';

/** One time that the loop did not turn. */
export interface LoopStall {
  /** Milliseconds since 1970, when it began. */
  readonly at: number;
  /** How late the timer was, in milliseconds. */
  readonly ms: number;
  /** Of that, what the loop's own thread was computing or in the kernel for: the rest it waited for a CPU. */
  readonly cpuMs: number;
}

const INTERVAL_MS = 10;
/** Shorter ones are not worth a line. */
const LEAST_MS = 20;

const stalls: LoopStall[] = [];
let last = performance.now();
let cpu = process.threadCpuUsage();

setInterval(() => {
  const now = performance.now();
  const used = process.threadCpuUsage();
  const ms = now - last - INTERVAL_MS;
  if (ms >= LEAST_MS) {
    const cpuMs = (used.user - cpu.user + used.system - cpu.system) / 1_000;
    stalls.push({ at: Date.now() - ms, ms: Math.round(ms), cpuMs: Math.round(cpuMs) });
  }
  last = now;
  cpu = used;
}, INTERVAL_MS).unref();

process.on('exit', () => {
  const { LOOP_STALLS } = process.env;
  if (LOOP_STALLS !== undefined) writeFileSync(LOOP_STALLS, JSON.stringify(stalls));
});
