import type { Trial } from './trial.ts';
import { apiServerBehindService } from './trials/api-server-behind-service.ts';
import { apiServerStopped } from './trials/api-server-stopped.ts';
import { daemonRestart } from './trials/daemon-restart.ts';
import { directServerReturn } from './trials/direct-server-return.ts';
import { endpointChurn } from './trials/endpoint-churn.ts';
import { metallb } from './trials/metallb.ts';
import { migrateFromIptables, migrateFromIpvs } from './trials/migrate.ts';
import { abruptRollingUpdate, rollingUpdate } from './trials/rolling-update.ts';
import { switchRepeatedly } from './trials/switch-repeatedly.ts';
import { silentEndpoints } from './trials/silent-endpoints.ts';
import { terminatingEndpoints } from './trials/terminating-endpoints.ts';
import { etcdRestored } from './trials/etcd-restored.ts';
import { kubeletStopped } from './trials/kubelet-stopped.ts';
import { modeChange } from './trials/mode-change.ts';
import { nodeDrained } from './trials/node-drained.ts';
import { nodeRebooted } from './trials/node-rebooted.ts';
import { nodeLocalDns } from './trials/node-local-dns.ts';
import { networkPolicy } from './trials/network-policy.ts';
import { roleTaken } from './trials/role-taken.ts';
import { serviceAnnotated } from './trials/service-annotated.ts';
import { shadow } from './trials/shadow.ts';
import { tokenRotated } from './trials/token-rotated.ts';

/** All trials, in the order of TRIAL=all: those that leave the cluster as it was come first. */
export const TRIALS: readonly Trial[] = [
  daemonRestart,
  rollingUpdate,
  abruptRollingUpdate,
  terminatingEndpoints,
  endpointChurn,
  serviceAnnotated,
  directServerReturn,
  modeChange,
  roleTaken,
  tokenRotated,
  apiServerBehindService,
  apiServerStopped,
  etcdRestored,
  kubeletStopped,
  nodeDrained,
  nodeRebooted,
  ...silentEndpoints,
  metallb,
  nodeLocalDns,
  networkPolicy,
  shadow,
  switchRepeatedly,
  migrateFromIpvs,
  migrateFromIptables,
];
