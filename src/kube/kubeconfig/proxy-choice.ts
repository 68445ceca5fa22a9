import { cidrContains, parseCidr } from '../../base/cidr.ts';
import { isLoopback } from '../../base/ip.ts';
import { readIp } from '../../base/read-ip.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Upper case has priority over lower case, as in Go. */
function variable(environment: Environment, name: string): string {
  return environment[name] || environment[name.toLowerCase()] || '';
}

/** Parses the URL of a proxy; the default scheme is http. Returns undefined if it is not valid. */
export function parseProxyUrl(text: string): URL | undefined {
  const url = text.includes('://') ? text : `http://${text}`;
  if (!URL.canParse(url)) return undefined;
  const parsed = new URL(url);
  return /^(https?|socks[45]?[ah]?):$/.test(parsed.protocol) && parsed.hostname !== '' ? parsed : undefined;
}

/** Returns whether an entry of NO_PROXY (an address, a CIDR, a domain or "*") matches this host and port. */
function excludes(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  const address = readIp(host);
  const cidr = parseCidr(entry);
  if (cidr !== undefined) return address !== undefined && cidrContains(cidr, address);
  // The port is optional: "host:port", "[::1]:port". A bare IPv6 address contains colons too.
  const parts = /^\[(.+)\](?::(\d+))?$/.exec(entry) ?? /^([^:]+)(?::(\d+))?$/.exec(entry);
  const name = (parts?.[1] ?? entry).toLowerCase().replace(/^\*\./, '.');
  if (parts?.[2] !== undefined && parts[2] !== port) return false;
  const excluded = readIp(name);
  if (excluded !== undefined || address !== undefined) return excluded !== undefined && excluded === address;
  return name.startsWith('.') ? host.endsWith(name) : host === name || host.endsWith(`.${name}`);
}

/** Returns the host in lower case; an IPv6 address without brackets. */
function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
}

export function isLoopbackHost(url: URL): boolean {
  const host = hostOf(url);
  const address = readIp(host);
  return host === 'localhost' || (address !== undefined && isLoopback(address));
}

/**
 * Returns the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY select for a URL, by the rules of Go's net/http, which
 * client-go uses. Localhost and loopback addresses never use a proxy. An invalid value counts as unset.
 */
export function proxyFromEnvironment(url: URL, environment: Environment): URL | undefined {
  const proxy = parseProxyUrl(variable(environment, url.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY'));
  if (proxy === undefined) return undefined;
  if (isLoopbackHost(url)) return undefined;
  const host = hostOf(url);
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  const entries = variable(environment, 'NO_PROXY').split(',');
  return entries.some((entry) => entry.trim() !== '' && excludes(entry.trim(), host, port)) ? undefined : proxy;
}
