import { MODES } from '../../base/proxy-mode.ts';
import type { KernelReader, NodeAddress } from '../../kernel/kernel.ts';
import { type IpAddress, isLinkLocal6 } from '../../base/ip.ts';
import type { DesiredState } from './desired-state.ts';
import { NODE_PORT_ADDRESS_SETS } from '../node/ownership.ts';

export class InterfaceAddresses {
  readonly #kernel: Pick<KernelReader, 'findSets' | 'getNodeAddresses' | 'mode'>;
  readonly #desired: DesiredState;
  #stale = true;
  /** Whether KUBE-NODE-PORT-IP was missing before this process wrote anything; undefined until it was read. */
  #areUnmarked: boolean | undefined;
  #last: readonly NodeAddress[] = [];

  constructor(kernel: Pick<KernelReader, 'findSets' | 'getNodeAddresses' | 'mode'>, desired: DesiredState) {
    this.#kernel = kernel;
    this.#desired = desired;
  }

  /** Whether the addresses may have changed since the last read(). */
  get stale(): boolean {
    return this.#stale;
  }

  /** All addresses, as last read, if KUBE-NODE-PORT-IP was missing when this process started; otherwise none. */
  get unmarked(): readonly IpAddress[] {
    return this.#areUnmarked === true ? this.#last.map(({ address }) => address) : [];
  }

  changed(): void {
    this.#stale = true;
  }

  /**
   * Checks whether KUBE-NODE-PORT-IP exists, which marks our node port addresses, unless all virtual servers are ours. Call
   * this before the first write.
   */
  async findMarks(): Promise<void> {
    if (MODES[this.#kernel.mode].ownsAll) return;
    this.#areUnmarked ??= (await this.#kernel.findSets(NODE_PORT_ADDRESS_SETS)).size === 0;
  }

  /** Passes the usable addresses to the desired state. Returns all addresses, including the unusable ones. */
  async read(): Promise<readonly NodeAddress[]> {
    // Reset this before the read, so that a change during the read causes another one.
    this.#stale = false;
    const addresses = await this.#kernel.getNodeAddresses();
    const usable = addresses.filter(({ address, tentative }) => !tentative && !isLinkLocal6(address));
    this.#desired.setInterfaceAddresses(usable.map(({ address }) => address));
    this.#last = addresses;
    return addresses;
  }
}
