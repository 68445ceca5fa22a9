import { type IpAddress, formatHostPort } from '../../base/ip.ts';
import { readIp } from '../../base/read-ip.ts';
import { type Port, toPort } from '../../base/port.ts';

/** Address and port of a server. */
export interface BindAddress {
  readonly address: IpAddress;
  readonly port: Port;
}

/** Reads "10.0.0.1:80" or "[fd00::1]:80"; returns undefined for anything else, including host names. */
export function parseBindAddress(text: string): BindAddress | undefined {
  const parts = /^(?:\[([^\]]*:[^\]]*)\]|([^:[\]]*)):(\d{1,5})$/.exec(text);
  if (parts === null) return undefined;
  const address = readIp(parts[1] ?? parts[2] ?? '');
  const port = toPort(Number(parts[3]));
  return address === undefined || port === undefined ? undefined : { address, port };
}

/** Adds the port to a bare address; returns any other text unchanged, for validation to check. */
export function withDefaultPort(text: string, port: number): string {
  const address = readIp(text);
  return address === undefined ? text : formatHostPort(address, port);
}
