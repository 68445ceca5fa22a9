import { cidrContains, parseCidr } from '../net/cidr.ts';
import { isLoopback, parseIp } from '../net/ip.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** The first of these that says something; as Go reads them, capitals before small letters. */
function variable(environment: Environment, name: string): string {
  return environment[name] || environment[name.toLowerCase()] || '';
}

/** A proxy's URL, also of one written without a scheme; undefined for what is none. */
export function parseProxyUrl(text: string): URL | undefined {
  const url = text.includes('://') ? text : `http://${text}`;
  if (!URL.canParse(url)) return undefined;
  const parsed = new URL(url);
  return /^(https?|socks[45]?[ah]?):$/.test(parsed.protocol) && parsed.hostname !== '' ? parsed : undefined;
}

/** Whether one entry of NO_PROXY means this host and port: an address, a CIDR, a domain with or without what is below it, or "*". */
function excludes(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  const address = parseIp(host);
  const cidr = parseCidr(entry);
  if (cidr !== undefined) return address !== undefined && cidrContains(cidr, address);
  // "host:port", "[::1]:port" or no port at all; an IPv6 address alone has colons of its own.
  const parts = /^\[(.+)\](?::(\d+))?$/.exec(entry) ?? /^([^:]+)(?::(\d+))?$/.exec(entry);
  const name = (parts?.[1] ?? entry).toLowerCase().replace(/^\*\./, '.');
  if (parts?.[2] !== undefined && parts[2] !== port) return false;
  const excluded = parseIp(name);
  if (excluded !== undefined || address !== undefined) return excluded !== undefined && excluded === address;
  return name.startsWith('.') ? host.endsWith(name) : host === name || host.endsWith(`.${name}`);
}

/**
 * The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY ask for, by the rules of Go's net/http and so of client-go: by the scheme of what is
 * asked for; never for localhost and loopback addresses. undefined: none. A value that is no URL counts as none.
 */
export function proxyFromEnvironment(url: URL, environment: Environment): URL | undefined {
  const proxy = parseProxyUrl(variable(environment, url.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY'));
  if (proxy === undefined) return undefined;
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  const address = parseIp(host);
  if (host === 'localhost' || (address !== undefined && isLoopback(address))) return undefined;
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  const entries = variable(environment, 'NO_PROXY').split(',');
  return entries.some((entry) => entry.trim() !== '' && excludes(entry.trim(), host, port)) ? undefined : proxy;
}
