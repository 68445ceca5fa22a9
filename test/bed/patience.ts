/** Factor for timeouts on a slow test kernel, set by lab/kernel/run.sh. */
const FACTOR = Number(process.env['KERNEL_PATIENCE'] ?? 1);

/** Returns a timeout in milliseconds, scaled for this kernel. */
export function patient(ms: number): number {
  return ms * FACTOR;
}
