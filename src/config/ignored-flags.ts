import { type Details, type Row, SWITCH, of, switchOf } from './flag.ts';
import { type ValueKind, bool, duration, string } from './value-kind.ts';

const OTHER_MODE = 'for another mode';
const OLD = 'gone from kube-proxy; drop it';

function old(kind: ValueKind<unknown>): Details {
  return kind === bool ? { ...SWITCH, ignored: OLD } : { kind, ignored: OLD };
}

/** Flags of kube-proxy that a manifest may still carry: read and checked, then left alone. */
export const IGNORED_FLAGS: readonly Row[] = [
  ['iptables-sync-period', '30s', OTHER_MODE, of('iptables.syncPeriod', { ignored: OTHER_MODE })],
  ['iptables-min-sync-period', '1s', OTHER_MODE, of('iptables.minSyncPeriod', { ignored: OTHER_MODE })],
  [
    'iptables-localhost-nodeports',
    'true',
    OTHER_MODE,
    { ...switchOf('iptables.localhostNodePorts'), ignored: OTHER_MODE },
  ],
  [
    'boot-id-file',
    '/proc/sys/kernel/random/boot_id',
    'never had an effect on the proxy',
    { kind: string, ignored: 'it never had an effect on the proxy' },
  ],
  [
    'machine-id-file',
    '/etc/machine-id,/var/lib/dbus/machine-id',
    'never had an effect on the proxy',
    { kind: string, ignored: 'it never had an effect on the proxy' },
  ],
  ['proxy-port-range', '', OLD, old(string)],
  ['udp-timeout', '250ms', OLD, old(duration)],
  ['resource-container', '', OLD, old(string)],
  ['cleanup-ipvs', 'true', OLD, old(bool)],
  ['logtostderr', 'true', OLD, old(bool)],
  ['alsologtostderr', 'false', OLD, old(bool)],
  ['add-dir-header', 'false', OLD, old(bool)],
  ['skip-headers', 'false', OLD, old(bool)],
  ['skip-log-headers', 'false', OLD, old(bool)],
  ['one-output', 'false', OLD, old(bool)],
  ['log-backtrace-at', '', OLD, old(string)],
  ['log-dir', '', OLD, old(string)],
  ['log-file', '', OLD, old(string)],
  ['log-file-max-size', '1800', OLD, old(string)],
  ['stderrthreshold', '2', OLD, old(string)],
];
