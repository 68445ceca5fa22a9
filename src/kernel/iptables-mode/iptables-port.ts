import type { IpFamily } from '../../base/ip.ts';

/** The programs of iptables, on one node. */
export interface IptablesPort {
  /** Returns the variant in use ("nft", "legacy", "system"). Rejects if rules of the family cannot be written. */
  probe(family: IpFamily): Promise<string>;
  /** Returns the variant in use. Rejects if rules of the family cannot be read. */
  find(family: IpFamily): Promise<string>;
  /** Rejects if nothing can be written, or not this script. Returns what iptables-restore --test says on stderr. */
  test(family: IpFamily, script?: string): Promise<string>;
  /** Returns what iptables-save prints. */
  read(family: IpFamily): Promise<string>;
  /** Returns a number that changes with every change of the rules; undefined if the variant has none. Costs little. */
  generation(): Promise<number | undefined>;
  /** Runs iptables-restore --noflush, which waits for the lock. */
  write(family: IpFamily, script: string): Promise<void>;
}
