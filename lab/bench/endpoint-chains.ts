import { createHash } from 'node:crypto';
import { NftLink } from '../../src/kernel/nftables/port/nft-link.ts';
import { type SocketConnection, openConnection } from '../../src/netlink/transport/connection.ts';
import { NETLINK_NETFILTER } from '../../src/netlink/netlink-protocol.ts';
import type { EndpointView } from './endpoint-view.ts';
import { growthIp, podIps } from './large-cluster.ts';

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
/** Of the digest in the name of a chain: eight characters. */
const DIGEST_BYTES = 5;

/** The chains of kube-proxy in nftables mode, one for each endpoint; they come with all else that a sync writes. */
export class EndpointChains implements EndpointView, Disposable {
  readonly #connection: SocketConnection;
  readonly #link: NftLink;

  /** @param netns path of the namespace */
  constructor(netns: string) {
    this.#connection = openConnection({ protocol: NETLINK_NETFILTER, netns });
    this.#link = new NftLink(this.#connection, () => undefined);
  }

  async haveAll(services: readonly number[], endpoints: number): Promise<boolean> {
    const names = services.flatMap((service) => podIps(service, endpoints, 4).map((ip) => chainName(service, ip)));
    return (await this.#link.lookUp(4, { chains: names })).chains.size === names.length;
  }

  async hasGrown(service: number): Promise<boolean> {
    const { chains } = await this.#link.lookUp(4, { chains: [chainName(service, growthIp(service, 4))] });
    return chains.size === 1;
  }

  [Symbol.dispose](): void {
    this.#connection.close();
  }
}

/** "endpoint-5OJB2KTY-team-1/service-1/tcp/web__10.64.0.5/8080" */
function chainName(service: number, ip: string): string {
  const name = `team-${service % 100}/service-${service}/tcp/web__${ip}/8080`;
  const digest = createHash('sha256').update(name).digest();
  const digits = digest.readUIntBE(0, DIGEST_BYTES).toString(32).padStart(8, '0');
  const text = Array.from(digits, (digit) => BASE32[parseInt(digit, 32)]).join('');
  return `endpoint-${text}-${name}`;
}
