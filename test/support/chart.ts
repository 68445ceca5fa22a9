import { spawnSync } from 'node:child_process';
import { loadAll } from 'js-yaml';
import { goTools } from './tools.ts';

export const CHART = 'charts/kube-ipvs-proxy';

export interface KubeObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; labels?: unknown };
  readonly data?: Readonly<Record<string, string>>;
}

export interface Rendered {
  readonly status: number | null;
  readonly stderr: string;
  readonly objects: readonly KubeObject[];
}

export interface DaemonSet extends KubeObject {
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly updateStrategy: unknown;
    readonly template: {
      readonly metadata: {
        readonly labels: Readonly<Record<string, string>>;
        readonly annotations: Readonly<Record<string, string>>;
      };
      readonly spec: {
        readonly serviceAccountName: string;
        readonly initContainers?: readonly { readonly volumeMounts: readonly object[] }[];
        readonly containers: readonly {
          readonly name: string;
          readonly image: string;
          readonly args: readonly string[];
          readonly readinessProbe: { readonly httpGet: { readonly port: number } };
          readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
        }[];
        readonly volumes: readonly {
          readonly name: string;
          readonly hostPath?: unknown;
          readonly downwardAPI?: {
            readonly items: readonly { readonly path: string; readonly fieldRef: { readonly fieldPath: string } }[];
          };
        }[];
      };
    };
  };
}

export const tools = goTools('helm', 'kustomize');
export const [HELM, KUSTOMIZE] = tools ?? [];

export function run(program: string | undefined, args: readonly string[]): Rendered {
  const { status, stdout, stderr } = spawnSync(program ?? '', args, { encoding: 'utf8', maxBuffer: 2 ** 26 });
  return { status, stderr, objects: loadAll(stdout).filter((object) => object !== null) as KubeObject[] };
}

/** Renders the chart with values, each written as `name=value`. */
export function template(...values: readonly string[]): Rendered {
  return render('--set=apiServer=https://192.0.2.1:6443', ...values.flatMap((value) => ['--set', value]));
}

export function render(...set: readonly string[]): Rendered {
  // A helm that is built from its module takes a version of 2021 for the cluster's.
  const args = ['kube-ipvs-proxy', CHART, '--namespace=kube-system', '--kube-version=1.35.0', '--no-hooks', ...set];
  return run(HELM, ['template', ...args]);
}

export function daemonSetOf({ objects }: Rendered): DaemonSet {
  return objects.find(({ kind }) => kind === 'DaemonSet') as DaemonSet;
}

/** The files that the volume `config` of the Pods has: the annotations that its items name. */
export function filesOf(rendered: Rendered): Readonly<Record<string, string | undefined>> {
  const { metadata, spec } = daemonSetOf(rendered).spec.template;
  const items = spec.volumes.find(({ name }) => name === 'config')?.downwardAPI?.items ?? [];
  return Object.fromEntries(
    items.map(({ path: file, fieldRef }) => {
      const [, key = ''] = /^metadata\.annotations\['(.*)'\]$/.exec(fieldRef.fieldPath) ?? [];
      return [file, metadata.annotations[key]];
    }),
  );
}
