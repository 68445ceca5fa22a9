import { type IpAddress, parseIp } from '../../src/base/ip.ts';

/** Reads "10.0.0.1:80" or "[fd00::1]:80". */
export function addressAndPort(text: string): { readonly address: IpAddress; readonly port: number } {
  const [, inner, plain, port = ''] = /^(?:\[(.+)\]|([^:]+)):(\d+)$/.exec(text) ?? [];
  return { address: addressOf(inner ?? plain ?? text), port: Number(port) };
}

/** Throws if it is not an address. */
export function addressOf(text: string): IpAddress {
  const address = parseIp(text);
  if (address === undefined) throw new Error(`"${text}" is not an address`);
  return address;
}
