import { runCommand } from '../../test/bed/command.ts';
import type { ClusterState } from './state-file.ts';

/** How to run kubectl against the cluster: the command line up to its own arguments. */
export type Kubectl = readonly string[];

export function kubectlOf(netns: string, program: string, kubeconfig: string): Kubectl {
  return ['nsenter', `--net=${netns}`, '--', program, `--kubeconfig=${kubeconfig}`];
}

/** For a cluster that is up. */
export function kubectlFor({ netns, kubectl: program, kubeconfig }: ClusterState): Kubectl {
  return kubectlOf(netns, program, kubeconfig);
}

/** Returns what it prints. Throws a CommandError if it fails. */
export async function kubectl(command: Kubectl, args: readonly string[], input = ''): Promise<string> {
  return (await runCommand([...command, ...args], { input, timeoutMs: 60_000 })).stdout;
}

/** Whether the command succeeds. */
export async function answers(command: Kubectl, args: readonly string[]): Promise<boolean> {
  return (await runCommand([...command, ...args], { allowFailure: true })).status === 0;
}
