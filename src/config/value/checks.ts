import { cidrFamily, parseCidr } from '../../base/cidr.ts';
import { readIp } from '../../base/read-ip.ts';
import { parseBindAddress } from './bind-address.ts';
import { formatDuration } from '../../base/duration.ts';
import { show } from './problem.ts';
import type { VModule } from './value-kind.ts';

// Each check returns an error that names the valid values, or undefined if the value is valid.

/** linux/if.h: IFNAMSIZ is 16, with the NUL. */
export const INTERFACE_NAME_MAX = 15;
/** linux/ip_vs.h: IP_VS_SCHEDNAME_MAXLEN is 16, with the NUL. */
const SCHEDULER_NAME_MAX = 15;

type Check<T> = (value: T) => string | undefined;

export function range(min: number, max = Infinity): Check<number> {
  const bounds = max === Infinity ? `${min} or more` : `${min} to ${max}`;
  return (value) => (value >= min && value <= max ? undefined : `${value} is out of range: want ${bounds}`);
}

/** Of an HTTP header, in ASCII. */
export function headerValue(text: string): string | undefined {
  return /^[\t -~]*$/.test(text) ? undefined : `${JSON.stringify(text)} has characters that no HTTP header may have`;
}

/** @param duration in milliseconds */
export function notNegative(duration: number): string | undefined {
  return duration >= 0 ? undefined : `${formatDuration(duration)} is negative: want 0s or more`;
}

/** @param duration in milliseconds */
export function positive(duration: number): string | undefined {
  return duration > 0 ? undefined : `${formatDuration(duration)} is not above zero`;
}

export function oneOf(...choices: readonly string[]): Check<string> {
  return (value) =>
    value === '' || choices.includes(value) ? undefined : `${show(value)} is none of ${choices.join(', ')}`;
}

const MODES = ['iptables', 'ipvs', 'nftables', 'userspace'] as const;

/** Modes that kube-proxy had or has on another operating system, each with the reason why it is not supported. */
const NO_MODES: Readonly<Record<string, string>> = {
  kernelspace: 'needs Windows: choose iptables, ipvs, nftables or userspace',
};

export function mode(name: string): string | undefined {
  const why = Object.hasOwn(NO_MODES, name) ? NO_MODES[name] : undefined;
  return why === undefined ? oneOf(...MODES)(name) : `${show(name)} ${why}`;
}

export function ip(text: string): string | undefined {
  return readIp(text) === undefined ? `${show(text)} is not an IP address` : undefined;
}

export function bindAddress(example: string): Check<string> {
  return (text) =>
    text === '' || parseBindAddress(text) !== undefined
      ? undefined
      : `${show(text)} is not an IP:port: want an address and a port from 1 to 65535, such as ${show(example)}`;
}

export function interfaceName(maxLength: number): Check<string> {
  return (name) => {
    if (name.length > maxLength) return `${show(name)} is longer than ${maxLength} characters`;
    return name === '' || /^[^\s/!+]+$/.test(name) ? undefined : `${show(name)} is not an interface name`;
  };
}

export function cidr(text: string): string | undefined {
  return parseCidr(text) === undefined
    ? `${show(text)} is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64"`
    : undefined;
}

/** @param text one CIDR, or one of each family separated by a comma */
export function clusterCidr(text: string): string | readonly string[] | undefined {
  if (text === '') return undefined;
  const parts = text.split(',');
  const cidrs = parts.map(parseCidr).filter((parsed) => parsed !== undefined);
  if (cidrs.length < parts.length) return parts.flatMap((part) => cidr(part) ?? []);
  if (parts.length > 2) return `holds ${parts.length} CIDRs: want one, or one of each family`;
  return new Set(cidrs.map(cidrFamily)).size === parts.length
    ? undefined
    : `${show(text)} holds two CIDRs of one family: want one of each`;
}

export function scheduler(name: string): string | undefined {
  if (name.length > SCHEDULER_NAME_MAX) {
    return `${show(name)} is longer than the ${SCHEDULER_NAME_MAX} characters that IPVS keeps`;
  }
  return name === '' || /^[\w-]+$/.test(name)
    ? undefined
    : `${show(name)} is not a scheduler name: want letters, digits, "_" and "-", such as rr, lc or mh`;
}

export function minorVersion(text: string): string | undefined {
  return text === '' || /^\d+\.\d+$/.test(text) ? undefined : `${show(text)} is not a version: want <major>.<minor>`;
}

export function vmodulePattern({ filePattern }: VModule): string | undefined {
  return filePattern === '' || /[,=]/.test(filePattern)
    ? `${show(filePattern)} is not a pattern: want a name without "," and "="`
    : undefined;
}
