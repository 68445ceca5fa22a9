import type { FakeKernel } from '../../src/kernel/fake-kernel.ts';

const READS = [
  'getSets',
  'getBoundAddresses',
  'getVirtualServers',
  'findVirtualServers',
  'getRealServers',
  'getNodeAddresses',
] as const;

export type Read = (typeof READS)[number];

/** From now on `act` is done each time when the kernel has been read, before whoever asked hears what it holds. */
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
