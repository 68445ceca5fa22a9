import { constants } from 'node:os';
import { GENL_ID_CTRL, decodeFamily, getFamily } from '../../netlink/family/genl-ctrl/family.ts';
import { IPVS_FAMILY_NAME } from '../../netlink/family/ipvs/message.ts';
import { KernelError } from '../kernel-error.ts';
import { type BatchConnection, askAll } from './batch.ts';

/** Returns the ID of a generic netlink family, or undefined if the kernel does not have it. */
export async function genericFamily(connection: BatchConnection, name: string): Promise<number | undefined> {
  const [id] = await askAll(connection, [name], {
    operation: 'CTRL_CMD_GETFAMILY',
    write: getFamily,
    read: ({ type, payload }) => (type === GENL_ID_CTRL ? decodeFamily(payload) : undefined),
    absent: new Set([constants.errno.ENOENT]),
  });
  return id;
}

/** Returns the ID of the generic netlink family "IPVS". */
export async function ipvsFamily(connection: BatchConnection): Promise<number> {
  const id = await genericFamily(connection, IPVS_FAMILY_NAME);
  if (id !== undefined) return id;
  const message = 'the kernel has no IPVS: run `modprobe ip_vs` on the node, or use a kernel with CONFIG_IP_VS';
  throw new KernelError('ipvs', 'MISSING_MODULE', message);
}
