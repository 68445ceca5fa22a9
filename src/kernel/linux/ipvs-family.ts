import type { Connection } from '../../netlink/connection.ts';
import { FamilyMissingError, resolveFamily } from '../../netlink/family/genl-ctrl/family.ts';
import { IPVS_FAMILY_NAME } from '../../netlink/family/ipvs/command.ts';
import { KernelError } from '../kernel-error.ts';

/** Returns the number of the generic netlink family "IPVS". */
export async function ipvsFamily(connection: Pick<Connection, 'sequence' | 'transact'>): Promise<number> {
  try {
    return (await resolveFamily(connection, IPVS_FAMILY_NAME)).id;
  } catch (error) {
    if (!(error instanceof FamilyMissingError)) throw error;
    const message = 'the kernel has no IPVS: run `modprobe ip_vs` on the node, or use a kernel with CONFIG_IP_VS';
    throw new KernelError('ipvs', 'MISSING_MODULE', message, { cause: error });
  }
}
