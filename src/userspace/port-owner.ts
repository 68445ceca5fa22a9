import { readFile, readdir, readlink } from 'node:fs/promises';
import { type IpAddress, isIp4 } from '../base/ip.ts';
import type { VirtualServerId } from '../state/virtual-server.ts';

/** The state of a listening TCP socket in /proc/net/tcp (include/net/tcp_states.h: TCP_LISTEN). */
const LISTENS = '0A';

/**
 * Returns the program that has a port, as "nginx (pid 12)". Undefined if this process cannot see it, as in a container
 * that does not share the node's process IDs.
 */
export async function portOwner({ address, port, protocol }: VirtualServerId): Promise<string | undefined> {
  const inodes = new Set<string>();
  for (const suffix of ['', '6']) {
    const table = await readFile(`/proc/self/net/${protocol.toLowerCase()}${suffix}`, 'latin1').catch(() => '');
    for (const inode of inodesOf(table, address, port, protocol === 'TCP')) inodes.add(inode);
  }
  if (inodes.size === 0) return undefined;
  for (const pid of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(pid) || !(await hasSocket(pid, inodes))) continue;
    const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '');
    return `${name.trim()} (pid ${pid})`;
  }
  return undefined;
}

/** Returns the inodes of the sockets with a port at an address or at all addresses. */
export function inodesOf(table: string, address: IpAddress, port: number, isTcp: boolean): string[] {
  const wanted = [...hexAddresses(address)];
  return table.split('\n').flatMap((line) => {
    const [, local = '', , state, , , , , , inode] = line.trim().split(/\s+/);
    const [host = '', hexPort = ''] = local.split(':');
    if (inode === undefined || Number.parseInt(hexPort, 16) !== port || !wanted.includes(host)) return [];
    return isTcp && state !== LISTENS ? [] : [inode];
  });
}

/** The forms of an address, and of all addresses, in /proc/net: 32-bit words in host order, which is little endian. */
function* hexAddresses(address: IpAddress): Generator<string> {
  yield '0'.repeat(8);
  yield '0'.repeat(32);
  const hex = address
    .toString(16)
    .toUpperCase()
    .padStart(isIp4(address) ? 8 : 32, '0');
  yield (hex.match(/.{8}/g) ?? []).map((word) => (word.match(/../g) ?? []).reverse().join('')).join('');
}

async function hasSocket(pid: string, inodes: ReadonlySet<string>): Promise<boolean> {
  const folder = `/proc/${pid}/fd`;
  for (const fd of await readdir(folder).catch(() => [])) {
    const target = await readlink(`${folder}/${fd}`).catch(() => '');
    if (target.startsWith('socket:[') && inodes.has(target.slice(8, -1))) return true;
  }
  return false;
}
