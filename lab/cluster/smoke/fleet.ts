import path from 'node:path';
import { runCommand } from '../../../test/bed/command.ts';
import type { FleetReply, FleetServiceReply, FleetStatusReply } from '../../../src/fleet/fleet-replies.ts';
import { PROJECT, clusterFolder } from '../folders.ts';
import { kubectl, kubectlFor } from '../kubectl.ts';
import type { ClusterState } from '../state-file.ts';
import type { Check } from './check.ts';

const SERVICE = 'kube-system/kube-dns';

/** `kubectl ipvs-proxy` by kubectl exec: all nodes are alike, and one on which another program deletes an object is named. */
export async function fleetChecks(state: ClusterState): Promise<readonly Check[]> {
  const { root } = clusterFolder(state.cluster);
  const asked = async <R extends FleetReply<string>>(...args: readonly string[]): Promise<R> => {
    const env = { ...process.env, PATH: `${root}:${process.env['PATH']}` };
    const program = [process.execPath, path.join(PROJECT, 'build/kube-ipvs-proxy.mjs'), 'fleet'];
    const options = { env, timeoutMs: 60_000, allowFailure: true };
    const { stdout, stderr } = await runCommand([...program, ...args, '-o', 'json'], options);
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout) as R;
  };
  const names = state.nodes.map(({ name }) => name);
  const last = names.at(-1) ?? '';
  return [
    await check('kubectl ipvs-proxy status: all nodes answer, and none differs', async () => {
      const { answered, differing, withoutPod, verdict } = await asked<FleetStatusReply>('status');
      const isAlike = answered === names.length && differing.length + withoutPod.length === 0;
      return isAlike ? undefined : `${verdict}: ${JSON.stringify({ differing, withoutPod })}`;
    }),
    await check('kubectl ipvs-proxy explain: names the node whose kernel lacks a virtual server', async () => {
      const [namespace = '', name = ''] = SERVICE.split('/');
      const get = ['get', 'service', '-n', namespace, name, '-o', 'jsonpath={.spec.clusterIP}'];
      const at = (await kubectl(kubectlFor(state), get)).replace(/.*:.*/, '[$&]');
      await runCommand([path.join(root, 'node-shell'), last, `ipvsadm -D -t ${at}:53`]);
      const { answered, differing, verdict } = await asked<FleetServiceReply>('explain', SERVICE);
      // The daemon may have repaired it meanwhile; then it says so.
      const isNamed =
        differing.length === 1 && differing[0]?.node === last && /ipvsadm -A -t/.test(differing[0].differences.join());
      return answered === names.length && isNamed ? undefined : `${verdict}: ${JSON.stringify(differing)}`;
    }),
  ];
}

async function check(name: string, failureOf: () => Promise<string | undefined>): Promise<Check> {
  const failure = await failureOf().catch(String);
  return failure === undefined ? { name } : { name, failure };
}
