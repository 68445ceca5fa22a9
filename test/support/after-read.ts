import type { FakeKernel } from '../fake-kernel/fake-kernel.ts';

const READS = [
  'getSets',
  'getBoundAddresses',
  'getVirtualServers',
  'findVirtualServers',
  'getRealServers',
  'confirmRealServers',
  'getNodeAddresses',
] as const;

export type Read = (typeof READS)[number];

/** Calls `act` after each kernel read from now on, before the caller gets the result. */
export function afterRead(kernel: FakeKernel, act: (read: Read) => void): void {
  for (const read of READS) {
    const original = kernel[read].bind(kernel) as (...args: never[]) => Promise<never>;
    kernel[read] = async (...args: never[]): Promise<never> => {
      const answer = await original(...args);
      act(read);
      return answer;
    };
  }
}
