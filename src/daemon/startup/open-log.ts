import type { ProxyConfig } from '../../config/proxy-config.ts';
import { type LogControl, createLog } from '../../observe/log/winston-log.ts';

/** Creates the configured log and logs the warnings about the configuration. */
export function openLog(config: ProxyConfig): LogControl {
  const control = createLog(config.logging);
  const about = control.log.child('config');
  for (const note of config.notes) about.warn(note);
  return control;
}
