import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { JsonObject } from '../apiserver/json-object.ts';
import { type DualStack, nodeAddress, podAddress } from '../bed/address-plan.ts';

/** The port that every service of these tests has, and the one that its pods listen on. */
export const SERVICE_PORT = 80;
export const POD_PORT = 8080;

export type Policy = 'Cluster' | 'Local';
export type Protocol = 'TCP' | 'UDP' | 'SCTP';

/** A dual-stack Service as a test needs it. */
export interface ServiceShape {
  readonly name: string;
  readonly clusterIp: DualStack;
  /** Default TCP alone. Each has the same port numbers. */
  readonly protocols?: readonly Protocol[];
  readonly nodePort?: number;
  readonly externalIp?: DualStack;
  readonly loadBalancerIp?: DualStack;
  readonly internal?: Policy;
  readonly external?: Policy;
  readonly sourceRanges?: readonly string[];
  /** sessionAffinity ClientIP with this timeout. */
  readonly affinitySeconds?: number;
  /** Annotations of ours, without the prefix. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** Default POD_PORT. */
  readonly targetPort?: number;
  readonly endpoints: readonly EndpointShape[];
}

export interface EndpointShape {
  readonly addresses: DualStack;
  /** Index of the node that it runs on. */
  readonly node: number;
  readonly zone?: string;
  /** The namespace of its Pod; default that of the Service. */
  readonly podNamespace?: string;
  /** As the endpoint controller says of a pod that is being deleted: not ready, serving, terminating. */
  readonly terminating?: boolean;
}

type Json = JsonObject;

/** The Service and its two EndpointSlices, as the API has them. */
export function serviceObjects(shape: ServiceShape): readonly Json[] {
  return [serviceObject(shape), sliceObject(shape, 'v4'), sliceObject(shape, 'v6')];
}

/** Node objects of a bed: node-0, node-1... */
export function nodeObjects(count: number): readonly Json[] {
  return Array.from({ length: count }, (_, index) => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: `node-${index}` },
    status: {
      addresses: [nodeAddress(index).v4, nodeAddress(index).v6].map((address) => ({ type: 'InternalIP', address })),
    },
  }));
}

function serviceObject(shape: ServiceShape): Json {
  const { name, clusterIp, protocols = ['TCP'], nodePort, externalIp, loadBalancerIp, affinitySeconds } = shape;
  const addresses = loadBalancerIp === undefined ? [] : [loadBalancerIp.v4, loadBalancerIp.v6];
  const annotations = Object.entries(shape.annotations ?? {});
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name,
      namespace: 'default',
      annotations: Object.fromEntries(annotations.map(([key, value]) => [`kube-ipvs-proxy/${key}`, value])),
    },
    spec: {
      type: loadBalancerIp !== undefined ? 'LoadBalancer' : nodePort !== undefined ? 'NodePort' : 'ClusterIP',
      clusterIP: clusterIp.v4,
      clusterIPs: [clusterIp.v4, clusterIp.v6],
      ipFamilies: ['IPv4', 'IPv6'],
      externalIPs: externalIp === undefined ? [] : [externalIp.v4, externalIp.v6],
      internalTrafficPolicy: shape.internal ?? 'Cluster',
      externalTrafficPolicy: shape.external ?? 'Cluster',
      loadBalancerSourceRanges: shape.sourceRanges ?? [],
      sessionAffinity: affinitySeconds === undefined ? 'None' : 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: affinitySeconds ?? 10_800 } },
      ports: protocols.map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: SERVICE_PORT, nodePort })),
    },
    status: { loadBalancer: { ingress: addresses.map((ip) => ({ ip })) } },
  };
}

function sliceObject(shape: ServiceShape, family: keyof DualStack): Json {
  const { name, protocols = ['TCP'], targetPort = POD_PORT, endpoints } = shape;
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `${name}-${family}`, namespace: 'default', labels: { 'kubernetes.io/service-name': name } },
    addressType: family === 'v4' ? 'IPv4' : 'IPv6',
    ports: protocols.map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: targetPort })),
    endpoints: endpoints.map(({ addresses, node, zone, podNamespace = 'default', terminating = false }) => ({
      addresses: [addresses[family]],
      nodeName: `node-${node}`,
      zone,
      targetRef: { kind: 'Pod', namespace: podNamespace, name: `pod-${addresses.v4}` },
      conditions: { ready: !terminating, serving: true, terminating },
    })),
  };
}

/** A directory for `--manifests` that a test owns. */
export class ManifestDirectory implements AsyncDisposable {
  readonly path: string;

  private constructor(directory: string) {
    this.path = directory;
  }

  static async create(): Promise<ManifestDirectory> {
    return new ManifestDirectory(await mkdtemp(path.join(tmpdir(), 'manifests-')));
  }

  /** One node, and one Service with its first pod as the only endpoint. */
  static async ofOnePod(clusterIp: DualStack): Promise<ManifestDirectory> {
    const directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
    const endpoints = [{ addresses: podAddress(0, 0), node: 0 }];
    await directory.write('web', serviceObjects({ name: 'web', clusterIp, endpoints }));
    return directory;
  }

  /** Replaces the objects of the file atomically. */
  async write(file: string, objects: readonly Json[]): Promise<void> {
    const text = objects.map((object) => JSON.stringify(object)).join('\n---\n');
    // A name that the daemon does not read, so that it never reads an incomplete file.
    const draft = path.join(this.path, `.${file}.draft`);
    await writeFile(draft, text);
    await rename(draft, path.join(this.path, `${file}.yaml`));
  }

  async remove(file: string): Promise<void> {
    await rm(path.join(this.path, `${file}.yaml`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true });
  }
}
