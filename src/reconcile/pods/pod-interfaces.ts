import type { IpAddress } from '../../base/ip.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { RP_FILTER_LOOSE } from '../../state/pod-network.ts';

type NodeKernel = Pick<Kernel, 'findRoutes' | 'getNodeAddresses' | 'getSysctl' | 'setSysctl'>;

const OFF = '0';
/**
 * Values of accept_local. To the kernel, all above 0 mean the same, so these two say that this program has set the
 * interface, and whether its rp_filter was strict. A later process can therefore set it back.
 */
const OURS = '2';
const OURS_WAS_STRICT = '3';
const STRICT = 1;

/**
 * The node's interfaces to prepared Pods. With IPv4, their answers have a source that is an address of the node, which
 * the kernel drops unless the interface accepts it. IPv6 needs no setting.
 */
export class PodInterfaces {
  readonly #kernel: NodeKernel;
  #opened: ReadonlySet<string> = new Set();

  constructor(kernel: NodeKernel) {
    this.#kernel = kernel;
  }

  /** Returns the interface through which the node sends packets to each Pod; no entry without a route. */
  async waysTo(pods: readonly IpAddress[]): Promise<ReadonlyMap<IpAddress, string>> {
    if (pods.length === 0) return new Map();
    const routes = await this.#kernel.findRoutes(pods);
    return new Map(Array.from(routes, ([pod, { interfaceName }]) => [pod, interfaceName]));
  }

  /**
   * Sets the interfaces to prepared Pods, and sets others back.
   *
   * @param kept interfaces that stay as they are
   * @param seen other interfaces to Pods
   */
  async update(needed: ReadonlySet<string>, kept: ReadonlySet<string>, seen: ReadonlySet<string>): Promise<void> {
    for (const name of needed) await this.#open(name);
    // A bridge to Pods has an address, and stays when its Pods have ended.
    const addresses = await this.#kernel.getNodeAddresses();
    const bridges = addresses.map(({ interfaceName }) => interfaceName);
    const known = new Set([...this.#opened, ...seen, ...bridges]);
    for (const name of known) if (!needed.has(name) && !kept.has(name)) await this.#close(name);
    this.#opened = new Set([...needed, ...kept]);
  }

  async #open(name: string): Promise<void> {
    const isStrict = await this.#isStrict(name);
    const isOff = (await this.#kernel.getSysctl(acceptLocal(name))) === OFF;
    if (isOff) await this.#kernel.setSysctl(acceptLocal(name), isStrict ? OURS_WAS_STRICT : OURS);
    if (isStrict) await this.#kernel.setSysctl(rpFilter(name), String(RP_FILTER_LOOSE));
  }

  /** The larger value of "all" and the interface is in force. */
  async #isStrict(name: string): Promise<boolean> {
    const [all, own] = [await this.#kernel.getSysctl(rpFilter('all')), await this.#kernel.getSysctl(rpFilter(name))];
    return Math.max(Number(all), Number(own)) === STRICT;
  }

  async #close(name: string): Promise<void> {
    const found = await this.#kernel.getSysctl(acceptLocal(name));
    if (found === OURS_WAS_STRICT) await this.#kernel.setSysctl(rpFilter(name), String(STRICT));
    if (found === OURS_WAS_STRICT || found === OURS) await this.#kernel.setSysctl(acceptLocal(name), OFF);
  }
}

function acceptLocal(name: string): string {
  return `net/ipv4/conf/${name}/accept_local`;
}

function rpFilter(name: string): string {
  return `net/ipv4/conf/${name}/rp_filter`;
}
