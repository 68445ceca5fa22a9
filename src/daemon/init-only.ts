import type { ProxyConfig } from '../config/proxy-config.ts';
import { createLinuxKernel } from '../kernel/linux-kernel.ts';
import { reportFailure } from './failure.ts';
import { setUpKernel } from './kernel-setup.ts';
import { openLog } from './open-log.ts';
import { requireRights } from './rights.ts';

/** Does the set-up that needs full privileges, so that the daemon proper runs with CAP_NET_ADMIN and CAP_NET_RAW; resolves with the exit code. */
export async function initOnly(config: ProxyConfig): Promise<number> {
  const { log } = openLog(config);
  return reportFailure(log, async () => {
    requireRights({ rules: false });
    const kernel = createLinuxKernel({ log: log.child('kernel') });
    try {
      await kernel.probeScheduler(config.scheduler);
      await setUpKernel(kernel, config, log);
      await kernel.prepare();
      log.info('the node is set up');
      return 0;
    } finally {
      await kernel.close();
    }
  });
}
