import type { ProxyConfig } from '../config/proxy-config.ts';
import type { Log } from '../observe/log.ts';

/** Runs until it is told to stop; resolves with the exit code. */
export function runDaemon(config: ProxyConfig, log: Log): Promise<number> {
  log.error('This action is not built yet', { action: config.action });
  return Promise.resolve(1);
}
