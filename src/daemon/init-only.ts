import type { ProxyConfig } from '../config/proxy-config.ts';
import type { Log } from '../observe/log.ts';

/** Does the set-up that needs full privileges; resolves with the exit code. */
export function initOnly(config: ProxyConfig, log: Log): Promise<number> {
  log.error('This action is not built yet', { action: config.action });
  return Promise.resolve(1);
}
