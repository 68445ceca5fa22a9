import { E2E_PROXIES, type E2eProxy } from './results.ts';

/** What the user may choose; the settings of the cluster itself are passed on. */
export interface E2eSettings {
  readonly proxies: readonly E2eProxy[];
  /** A regular expression for names of specs after `[sig-network] `; '' selects all groups. */
  readonly focus: string;
  /** How many specs run at a time. */
  readonly procs: number;
  /** After this duration, such as `90m`, specs that have not begun are left out; '' is the default of run.sh. */
  readonly timeout: string;
  /** Arguments for the settings of `make cluster`. */
  readonly cluster: readonly string[];
}

export class E2eSettingsError extends Error {
  override readonly name = 'E2eSettingsError';
}

/** Reads arguments like `PROXY=all`. An empty value is the default, so that make can pass all of them. */
export function parseE2eSettings(argv: readonly string[]): E2eSettings {
  const own = { PROXY: '', FOCUS: '', PROCS: '', TIMEOUT: '' };
  const isOwn = (name: string): name is keyof typeof own => Object.hasOwn(own, name);
  const cluster: string[] = [];
  for (const argument of argv) {
    const at = argument.indexOf('=');
    const name = argument.slice(0, Math.max(at, 0));
    if (isOwn(name)) own[name] = argument.slice(at + 1).trim();
    else cluster.push(argument);
  }
  const procs = Number(own.PROCS || '2');
  if (!Number.isInteger(procs) || procs < 1) throw new E2eSettingsError(`PROCS=${own.PROCS} is not a positive number`);
  if (!/^(\d+[hms])*$/.test(own.TIMEOUT))
    throw new E2eSettingsError(`TIMEOUT=${own.TIMEOUT} is not a duration like 90m`);
  return { proxies: proxiesOf(own.PROXY || 'ours'), focus: own.FOCUS, procs, timeout: own.TIMEOUT, cluster };
}

function proxiesOf(value: string): readonly E2eProxy[] {
  const proxy = E2E_PROXIES.find((one) => one === value);
  if (value !== 'all' && proxy === undefined) {
    throw new E2eSettingsError(`PROXY=${value} is not ${E2E_PROXIES.join(', ')} or all`);
  }
  return proxy === undefined ? E2E_PROXIES : [proxy];
}
