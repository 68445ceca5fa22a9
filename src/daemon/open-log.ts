import type { ProxyConfig } from '../config/proxy-config.ts';
import { type LogControl, createLog } from '../observe/winston-log.ts';

/** The log that the configuration asks for; it begins with what there is to say about the configuration itself. */
export function openLog(config: ProxyConfig): LogControl {
  const control = createLog(config.logging);
  const about = control.log.child('config');
  for (const note of config.notes) about.warn(note);
  return control;
}
