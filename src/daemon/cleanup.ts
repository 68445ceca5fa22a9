import type { ProxyConfig } from '../config/proxy-config.ts';
import type { Log } from '../observe/log.ts';

/** Removes what a proxy left in the kernel; resolves with the exit code. */
export function cleanUp(config: ProxyConfig, log: Log): Promise<number> {
  log.error('This action is not built yet', { action: config.action });
  return Promise.resolve(1);
}
