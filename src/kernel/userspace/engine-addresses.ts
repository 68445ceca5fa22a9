import { IP_FAMILIES, type Ip4, type Ip6, type IpAddress, type IpFamily, familyOf, isIp4 } from '../../base/ip.ts';
import type { NodeAddress } from '../kernel.ts';

/** fe80::/10, without the lower bits. */
const LINK_LOCAL = 0x3fan;

const LOOPBACK: Readonly<Record<IpFamily, IpAddress>> = { 4: 0x7f00_0001 as Ip4, 6: 1n as Ip6 };

/**
 * The address of each family at which the engine listens, and to which its connections are translated. A rule `redirect`
 * would use an address of the interface through which a packet comes, and drop the packet if that has none, as those of
 * many Pods; and an answer of UDP would leave with another address than the one that was asked.
 */
export class EngineAddresses {
  readonly #chosen = new Map<IpFamily, IpAddress>();

  /** Chooses again where the node has the address no more. Returns whether any is another one than before. */
  choose(all: readonly NodeAddress[]): boolean {
    const changes = IP_FAMILIES.filter((family) => this.#next(family, all) !== this.#chosen.get(family));
    for (const family of changes) {
      const next = this.#next(family, all);
      if (next === undefined) this.#chosen.delete(family);
      else this.#chosen.set(family, next);
    }
    return changes.length > 0;
  }

  /** Whether others would be chosen. */
  isOutdated(all: readonly NodeAddress[]): boolean {
    return IP_FAMILIES.some((family) => this.#next(family, all) !== this.#chosen.get(family));
  }

  /** A node without an address of the family has clients at its loopback interface only. */
  of(family: IpFamily): IpAddress {
    return this.#chosen.get(family) ?? LOOPBACK[family];
  }

  #next(family: IpFamily, all: readonly NodeAddress[]): IpAddress | undefined {
    const possible = all.filter((each) => isPossible(each, family));
    const before = this.#chosen.get(family);
    return possible.find(({ address }) => address === before)?.address ?? possible[0]?.address;
  }
}

function isPossible({ address, tentative, interfaceName }: NodeAddress, family: IpFamily): boolean {
  if (familyOf(address) !== family || tentative || interfaceName === 'lo') return false;
  return isIp4(address) || address >> 118n !== LINK_LOCAL;
}
