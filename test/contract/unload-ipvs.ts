import { readFile } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';

/** Whatever runs programs in the network namespace that has virtual servers. */
interface Runner {
  run(program: string, ...args: readonly string[]): Promise<string>;
}

/**
 * Removes all virtual servers of the namespace, then the modules. Namespaces just deleted hold ip_vs for a moment, and a daemon
 * may add its virtual servers again in between.
 */
export async function unloadIpvs(bed: Runner): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const loaded = (await readFile('/proc/modules', 'utf8')).match(/^(ip_vs\w*|xt_ipvs)(?= )/gm) ?? [];
    if (loaded.length === 0) return;
    await bed.run('ipvsadm', '-C');
    try {
      // Whatever needs ip_vs goes first.
      await bed.run(
        'rmmod',
        ...loaded.filter((name) => name !== 'ip_vs'),
        ...loaded.filter((name) => name === 'ip_vs'),
      );
    } catch (error) {
      if (attempt === 50) throw error;
      await setTimeout(200);
    }
  }
}
