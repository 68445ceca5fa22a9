import type { Trial } from './trial.ts';
import { daemonRestart } from './trials/daemon-restart.ts';
import { endpointChurn } from './trials/endpoint-churn.ts';
import { abruptRollingUpdate, rollingUpdate } from './trials/rolling-update.ts';
import { terminatingEndpoints } from './trials/terminating-endpoints.ts';

/** All trials, in the order of TRIAL=all: those that leave the cluster as it was come first. */
export const TRIALS: readonly Trial[] = [
  daemonRestart,
  rollingUpdate,
  abruptRollingUpdate,
  terminatingEndpoints,
  endpointChurn,
];
