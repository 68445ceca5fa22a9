import { createCommandRunner } from '../../kernel/command-runner.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { PodNamespaceFolder } from '../../kernel/linux/pods/pod-namespace-folder.ts';
import { PodInterfaces } from '../../reconcile/pods/pod-interfaces.ts';
import { PodPreparer, type PodPreparerOptions } from '../../reconcile/pods/pod-preparer.ts';
import { SYSTEM_CLOCK } from '../../reconcile/timing/clock.ts';

export interface PodPreparation extends Pick<PodPreparerOptions, 'log' | 'onWarning'> {
  /** Of the namespaces of Pods. */
  readonly folder: string;
  readonly kernel: Kernel;
  readonly onProgram?: (program: string) => void;
}

export function createPodPreparer({ folder, kernel, onProgram, ...options }: PodPreparation): PodPreparer {
  return new PodPreparer({
    namespaces: new PodNamespaceFolder(folder, createCommandRunner(onProgram && { onStart: onProgram })),
    interfaces: new PodInterfaces(kernel),
    clock: SYSTEM_CLOCK,
    ...options,
  });
}
