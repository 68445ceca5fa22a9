import { readFileSync, writeFileSync } from 'node:fs';
import type { CommandRunner } from '../command-runner.ts';
import { KernelError } from '../kernel-error.ts';

/** Reads and writes sysctl files: directly, or in another network namespace with cat and tee. */
export interface SysctlFiles {
  /** Returns undefined if the file does not exist. */
  read(path: string): Promise<string | undefined>;
  write(path: string, value: string): Promise<void>;
}

const ROOT = '/proc/sys/';
// Interface names in keys may contain dots ("eth0.100"), but a part is never "." or "..".
const KEY = /^[A-Za-z0-9_][A-Za-z0-9_.:@-]*(\/[A-Za-z0-9_][A-Za-z0-9_.:@-]*)+$/;

export class Sysctl {
  readonly #files: SysctlFiles;

  constructor(files: SysctlFiles) {
    this.#files = files;
  }

  async get(key: string): Promise<string | undefined> {
    const path = pathOf(key);
    try {
      const text = await this.#files.read(path);
      return text === undefined ? undefined : normalise(text);
    } catch (error) {
      throw failure(key, 'read', error);
    }
  }

  /** Writes only if the value differs. */
  async set(key: string, value: string): Promise<{ readonly changed: boolean; readonly before: string }> {
    const before = await this.get(key);
    if (before === undefined) {
      throw new KernelError(
        'sysctl',
        'ENOENT',
        `sysctl ${key} cannot be set to ${value}: it does not exist; ${missing(key)}`,
      );
    }
    if (before === normalise(value)) return { changed: false, before };
    try {
      await this.#files.write(pathOf(key), value);
    } catch (error) {
      throw failure(key, `set to ${value} (it is ${before})`, error);
    }
    return { changed: true, before };
  }
}

/** Throws a KernelError (EINVAL) for a key that could name a file outside /proc/sys. */
export function checkSysctlKey(key: string): void {
  if (!KEY.test(key)) throw new KernelError('sysctl', 'EINVAL', `not a sysctl key: ${JSON.stringify(key)}`);
}

function pathOf(key: string): string {
  checkSysctlKey(key);
  return ROOT + key;
}

/** Makes values comparable: the numbers in a value may be separated by tabs or spaces. */
function normalise(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}

/** Modules that create sysctls, by the beginning of the key. */
const MODULES: readonly (readonly [prefix: string, module: string])[] = [
  ['net/ipv4/vs/', 'ip_vs'],
  ['net/netfilter/nf_conntrack', 'nf_conntrack'],
];

function missing(key: string): string {
  const module = MODULES.find(([prefix]) => key.startsWith(prefix))?.[1];
  return module === undefined
    ? 'this kernel lacks it'
    : `either the kernel module ${module} is not loaded (modprobe ${module}), or this kernel lacks the setting`;
}

function failure(key: string, verb: string, error: unknown): KernelError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'EIO';
  const hint =
    code === 'EROFS' || code === 'EACCES' || code === 'EPERM'
      ? ': run privileged, with /proc/sys writable, or delete the Pod if its init container runs --init-only'
      : '';
  return new KernelError('sysctl', code, `sysctl ${key} cannot be ${verb}: ${code}${hint}`, { cause: error });
}

/** Sysctl files of this process's network namespace. Synchronous reads and writes of a few bytes do not block. */
export const processSysctlFiles: SysctlFiles = {
  read: async (path) => {
    await Promise.resolve();
    try {
      return readFileSync(path, 'utf8');
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
      throw error;
    }
  },
  write: async (path, value) => {
    await Promise.resolve();
    writeFileSync(path, value);
  },
};

/** For a runner that enters another network namespace: /proc/sys/net is that of the process that reads it. */
export function commandSysctlFiles(runner: CommandRunner): SysctlFiles {
  return {
    read: async (path) => {
      const { status, stdout, stderr } = await runner.run('cat', ['--', path]);
      if (status === 0) return stdout;
      if (stderr.includes('No such file or directory')) return undefined;
      throw new KernelError('cat', 'EIO', stderr.trim());
    },
    write: async (path, value) => {
      const { status, stderr } = await runner.run('tee', ['--', path], { stdin: value });
      if (status !== 0) throw new KernelError('tee', 'EIO', stderr.trim());
    },
  };
}
