import { readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import type { IpFamily } from '../net/ip.ts';
import { searchPath } from './command-runner.ts';

/** What files tell of iptables: each question answered here is one program less to start. */
export interface IptablesFiles {
  /** The file that is started for a program, links followed; undefined where it is not installed. */
  program(name: string): string | undefined;
  /** The tables that iptables-legacy has in this network namespace, one a line; undefined where that is not known. */
  legacyTables(family: IpFamily): string | undefined;
}

const LEGACY_TABLES: Readonly<Record<IpFamily, string>> = {
  4: '/proc/net/ip_tables_names',
  6: '/proc/net/ip6_tables_names',
};

/** For this process and its own network namespace. */
export const processIptablesFiles: IptablesFiles = {
  program: (name) => {
    for (const folder of searchPath()) {
      try {
        return realpathSync(path.join(folder, name));
      } catch {
        // Not in this folder.
      }
    }
    return undefined;
  },
  legacyTables: (family) => {
    try {
      return readFileSync(LEGACY_TABLES[family], 'utf8');
    } catch (error) {
      // The kernel makes it together with the first table; iptables-legacy-save reads it in the same way.
      return error instanceof Error && 'code' in error && error.code === 'ENOENT' ? '' : undefined;
    }
  },
};

/** Nothing is known: for a runner that enters another network namespace. */
export const NO_IPTABLES_FILES: IptablesFiles = { program: () => undefined, legacyTables: () => undefined };
