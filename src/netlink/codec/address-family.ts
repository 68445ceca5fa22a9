import type { IpFamily } from '../../base/ip.ts';

/** linux/socket.h: AF_UNSPEC, AF_INET, AF_INET6. */
export const AF_UNSPEC = 0;
export const AF_INET = 2;
export const AF_INET6 = 10;

export function addressFamily(family: IpFamily): number {
  return family === 4 ? AF_INET : AF_INET6;
}

/** Returns undefined for every other family. */
export function ipFamily(addressFamily: number): IpFamily | undefined {
  return addressFamily === AF_INET ? 4 : addressFamily === AF_INET6 ? 6 : undefined;
}
