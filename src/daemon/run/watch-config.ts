import { watchConfigFile } from '../../config/config-file-watch.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { Log } from '../../observe/log/log.ts';

/** Stops the program with exit code 1 when the file of --config changes. */
export function watchConfig(config: ProxyConfig, stop: AbortController, started: AsyncDisposableStack, log: Log): void {
  if (config.configFile === undefined) return;
  const onChange = (): void => {
    log.error('configuration file changed: exiting, so that a restart reads the new content');
    stop.abort(1);
  };
  started.defer(watchConfigFile({ ...config.configFile, onChange }));
}
