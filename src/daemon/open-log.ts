import type { ProxyConfig } from '../config/proxy-config.ts';
import type { Log } from '../observe/log.ts';
import { createLog } from '../observe/winston-log.ts';

/** The log that the configuration asks for; it begins with what there is to say about the configuration itself. */
export function openLog(config: ProxyConfig): Log {
  const { log } = createLog(config.logging);
  const about = log.child('config');
  for (const note of config.notes) about.warn(note);
  return log;
}
