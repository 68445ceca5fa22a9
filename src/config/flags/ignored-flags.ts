import { flag } from './setting.ts';
import { bool, duration, string } from '../value/value-kind.ts';

const NEVER = { ignored: 'it never had an effect on the proxy' };
const OLD = { ignored: 'kube-proxy no longer has it; remove it' };

/** Flags of kube-proxy that manifests may still contain. They are parsed and validated, but have no effect. */
export const IGNORED_FLAGS = {
  bootIdFile: flag('boot-id-file', string, '/proc/sys/kernel/random/boot_id', NEVER),
  machineIdFile: flag('machine-id-file', string, '/etc/machine-id,/var/lib/dbus/machine-id', NEVER),
  proxyPortRange: flag('proxy-port-range', string, '', OLD),
  udpTimeout: flag('udp-timeout', duration, 250, OLD),
  resourceContainer: flag('resource-container', string, '', OLD),
  cleanupIpvs: flag('cleanup-ipvs', bool, true, OLD),
  logtostderr: flag('logtostderr', bool, true, OLD),
  alsologtostderr: flag('alsologtostderr', bool, false, OLD),
  addDirHeader: flag('add-dir-header', bool, false, OLD),
  skipHeaders: flag('skip-headers', bool, false, OLD),
  skipLogHeaders: flag('skip-log-headers', bool, false, OLD),
  oneOutput: flag('one-output', bool, false, OLD),
  logBacktraceAt: flag('log-backtrace-at', string, '', OLD),
  logDir: flag('log-dir', string, '', OLD),
  logFile: flag('log-file', string, '', OLD),
  logFileMaxSize: flag('log-file-max-size', string, '1800', OLD),
  stderrthreshold: flag('stderrthreshold', string, '2', OLD),
};
