import type { Trial } from './trial.ts';
import { daemonRestart } from './trials/daemon-restart.ts';

/** All trials, in the order of TRIAL=all: those that leave the cluster as it was come first. */
export const TRIALS: readonly Trial[] = [daemonRestart];
