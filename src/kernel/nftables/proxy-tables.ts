import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import { type SocketConnection, openConnection } from '../../netlink/transport/connection.ts';
import { NetlinkError } from '../../netlink/error.ts';
import { NETLINK_NETFILTER } from '../../netlink/netlink-protocol.ts';
import { KernelError } from '../kernel-error.ts';
import { reasonOf } from '../../state/outcome.ts';
import { withKernelError } from '../linux/netlink-failure.ts';
import { TABLE } from '../../state/nft-table.ts';
import { NftLink } from './port/nft-link.ts';
import { type TableState, tableState } from './table-take-over.ts';

/** The tables of nftables mode, of this program or of kube-proxy, and the chains of other tables. */
export interface ProxyTables {
  /** Returns whose table each family has; families without a table are absent. */
  states(): Promise<ReadonlyMap<IpFamily, Exclude<TableState, 'missing'>>>;
  /** Returns the families that have such a table; none if the kernel has no nf_tables. */
  find(): Promise<readonly IpFamily[]>;
  remove(family: IpFamily): Promise<void>;
  /** Returns the names of the chains of any table of nf_tables; none if it does not exist. */
  chainsOf(family: IpFamily, table: string): Promise<readonly string[]>;
}

/** @param netns path of a network namespace; default: that of this process */
export function proxyTables(netns?: string): ProxyTables {
  const using = async <T>(work: (link: NftLink) => Promise<T>): Promise<T> => {
    const connection: SocketConnection = openConnection({
      protocol: NETLINK_NETFILTER,
      ...(netns === undefined ? {} : { netns }),
    });
    try {
      return await work(new NftLink(connection, () => undefined));
    } finally {
      connection.close();
    }
  };
  return {
    find: async () =>
      await withKernelError('leftovers', () => using(async (link) => [...(await tableStates(link)).keys()])),
    states: async () => await withKernelError('nf_tables', () => using(tableStates)),
    chainsOf: async (family, table) =>
      await withKernelError('leftovers', () => using((link) => link.chainNames(family, table))),
    remove: async (family) => {
      const refusal = await using((link) => link.commit(family, [{ kind: 'delete-table' }]));
      if (refusal === undefined) return;
      const message = `cannot delete the table ${TABLE} of nf_tables: ${reasonOf(refusal)}`;
      throw new KernelError('leftovers', refusal.code, message);
    },
  };
}

async function tableStates(link: NftLink): Promise<ReadonlyMap<IpFamily, Exclude<TableState, 'missing'>>> {
  const found = new Map<IpFamily, Exclude<TableState, 'missing'>>();
  for (const family of IP_FAMILIES) {
    try {
      const state = await tableState(link, family);
      if (state !== 'missing') found.set(family, state);
    } catch (error) {
      if (!isWithoutTables(error)) throw error;
    }
  }
  return found;
}

/** The kernel refuses requests of a subsystem that it does not have with EINVAL, and of a family with EOPNOTSUPP. */
export function isWithoutTables(error: unknown): boolean {
  return error instanceof NetlinkError && ['EINVAL', 'EOPNOTSUPP', 'EAFNOSUPPORT'].includes(error.code);
}
