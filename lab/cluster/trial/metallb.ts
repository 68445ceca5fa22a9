import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { loadAll } from 'js-yaml';
import { runCommand } from '../../../test/bed/command.ts';
import { cacheOf } from '../folders.ts';
import { goEnvironment } from '../go.ts';
import type { TrialContext } from './context.ts';
import { PROGRAM_MOUNT, PROGRAM_VOLUME } from './node-programs.ts';

export const METALLB_NAMESPACE = 'metallb-system';

export const METALLB_PROGRAMS = ['metallb-controller', 'metallb-speaker'];

interface Workload {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly name: string;
          readonly args: readonly string[];
          volumeMounts: unknown[];
        }[];
        volumes: unknown[];
      };
    };
  };
}

/**
 * The objects of MetalLB's own manifest, without its webhooks: for them, the API server would have to reach a Service. Its
 * programs, built from Go modules, run in an image that has no others.
 */
export async function metallbObjects(context: TrialContext, image: string): Promise<readonly unknown[]> {
  const cache = cacheOf(context.state.kubernetes);
  const argv = [
    'go',
    '-C',
    path.join(cache.modules, 'metallb'),
    'list',
    '-m',
    '-f',
    '{{.Dir}}',
    'go.universe.tf/metallb',
  ];
  const { stdout } = await runCommand(argv, { env: { ...goEnvironment(), GOFLAGS: '-mod=mod' } });
  const manifest = await readFile(path.join(stdout.trim(), 'config/manifests/metallb-native.yaml'), 'utf8');
  return (loadAll(manifest) as readonly Workload[])
    .filter(({ kind }) => kind !== 'ValidatingWebhookConfiguration')
    .map((object) => (['Deployment', 'DaemonSet'].includes(object.kind) ? withProgram(object, image) : object));
}

function withProgram(workload: Workload, image: string): Workload {
  const { spec } = workload.spec.template;
  const containers = spec.containers.map((container) => ({
    ...container,
    image,
    imagePullPolicy: 'IfNotPresent',
    command: [`/programs/metallb-${container.name}`],
    args: [...container.args, ...(container.name === 'controller' ? ['--webhook-mode=disabled'] : [])],
    volumeMounts: [...container.volumeMounts, PROGRAM_MOUNT],
  }));
  const volumes = [...spec.volumes, PROGRAM_VOLUME];
  return {
    ...workload,
    spec: { ...workload.spec, template: { ...workload.spec.template, spec: { ...spec, containers, volumes } } },
  };
}

/** The objects that make MetalLB announce these addresses in layer 2 mode. */
export function layer2Pool(addresses: string): readonly unknown[] {
  const metadata = { name: 'trial', namespace: METALLB_NAMESPACE };
  return [
    { apiVersion: 'metallb.io/v1beta1', kind: 'IPAddressPool', metadata, spec: { addresses: [addresses] } },
    { apiVersion: 'metallb.io/v1beta1', kind: 'L2Advertisement', metadata, spec: { ipAddressPools: ['trial'] } },
  ];
}
