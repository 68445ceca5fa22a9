import type { ProxyConfig } from '../config/proxy-config.ts';
import { loadMode } from './modes/load-mode.ts';
import { reportFailure } from './startup/report-failure.ts';
import { setUpKernel } from './startup/kernel-setup.ts';
import { openLog } from './startup/open-log.ts';
import { requireRights } from './startup/rights.ts';

/** Runs the privileged setup, so the daemon needs only CAP_NET_ADMIN and CAP_NET_RAW. Resolves to the exit code. */
export async function initOnly(config: ProxyConfig): Promise<number> {
  const { log } = openLog(config);
  return reportFailure(log, async () => {
    requireRights({ rules: false });
    const mode = await loadMode(config.mode);
    const kernel = mode.createKernel({ log: log.child('kernel') });
    try {
      await kernel.probeScheduler(config.scheduler);
      await setUpKernel(kernel, config, log);
      await kernel.prepare();
      log.info('node set-up complete');
      return 0;
    } finally {
      await kernel.close();
    }
  });
}
