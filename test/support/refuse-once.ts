import { KernelError } from '../../src/kernel/kernel-error.ts';
import type { FakeIptables } from '../fake-kernel/fake-iptables.ts';

/** Once, the n-th write from now on is refused: another program has the lock. `written` is called after each of the others. */
export function refuseOnce(
  programs: FakeIptables,
  nth: number,
  written: () => void = () => undefined,
): { readonly writes: () => number } {
  const write = programs.write.bind(programs);
  let writes = 0;
  programs.write = async (family, script) => {
    writes += 1;
    if (writes === nth) throw new KernelError('iptables', 'LOCKED', 'another program is holding the xtables lock');
    await write(family, script);
    written();
  };
  return { writes: () => writes };
}
