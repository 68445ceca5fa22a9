import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { MODES, type ProxyMode } from '../../../src/base/proxy-mode.ts';

const ROOT = path.resolve('src');
const IMPORT = /^(?:import|export)\s+(?!type\s)([^'"]*?)from\s+'(\.[^']+)'/gm;

/** What no start of a daemon needs: subcommands, questions, dry runs, Pods of direct routing, and the other modes. */
const ELSEWHERE = ['command/', 'fleet/', 'explain/packet/', 'daemon/shadow/', 'kernel/linux/pods/'];

/** The folders of a mode. User-space mode moves the packets of its Services with nf_tables. */
const OF_MODE: Readonly<Record<ProxyMode, readonly string[]>> = {
  ipvs: ['kernel/ipvs/'],
  nftables: ['kernel/nftables/'],
  iptables: ['kernel/iptables-mode/'],
  userspace: ['kernel/userspace/', 'kernel/nftables/'],
};

/** More modules cost more time and memory in each start. Whoever raises a number should know why. */
const MOST_MODULES: Readonly<Record<ProxyMode, number>> = { ipvs: 430, nftables: 470, iptables: 460, userspace: 490 };

/** Returns the modules that are loaded with these: all but those of import() and of types. */
function loadedWith(entries: readonly string[]): ReadonlySet<string> {
  const loaded = new Set<string>();
  const open = [...entries];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (loaded.has(file)) continue;
    loaded.add(file);
    for (const [, names = '', from = ''] of readFileSync(path.join(ROOT, file), 'utf8').matchAll(IMPORT)) {
      const listed = /\{([^}]*)\}/.exec(names)?.[1];
      const all = listed?.split(',').map((name) => name.trim()) ?? [''];
      if (listed === undefined || all.some((name) => name !== '' && !name.startsWith('type ')))
        open.push(path.join(path.dirname(file), from));
    }
  }
  return loaded;
}

describe.each(Object.keys(MODES) as ProxyMode[])('what a start in %s mode loads', (mode) => {
  const loaded = [...loadedWith(['main.ts', 'daemon/run/run.ts', `daemon/modes/${mode}.ts`])];

  test('only what the daemon needs in this mode', () => {
    const others = Object.values(OF_MODE)
      .flat()
      .filter((folder) => !OF_MODE[mode].includes(folder));
    const wrong = [...ELSEWHERE, ...others];
    expect(loaded.filter((file) => wrong.some((folder) => file.startsWith(folder)))).toEqual([]);
    expect(OF_MODE[mode].filter((folder) => !loaded.some((file) => file.startsWith(folder)))).toEqual([]);
  });

  test('no more modules than before', () => {
    expect(loaded.length).toBeLessThanOrEqual(MOST_MODULES[mode]);
    // Otherwise, the limit would not notice what grows.
    expect(loaded.length).toBeGreaterThan(MOST_MODULES[mode] - 60);
  });
});
