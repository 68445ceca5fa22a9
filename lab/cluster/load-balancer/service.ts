/** The fields of a Service that are read. */
export interface Service {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly finalizers?: readonly string[];
    readonly deletionTimestamp?: string;
  };
  readonly spec: {
    readonly type: string;
    readonly ipFamilies?: readonly string[];
    readonly loadBalancerClass?: string;
    readonly externalTrafficPolicy?: string;
    readonly healthCheckNodePort?: number;
    readonly sessionAffinity?: string;
  };
  readonly status: { readonly loadBalancer?: { readonly ingress?: readonly { readonly ip?: string }[] } };
}

/** While a Service has this, the API server keeps it, so that its addresses can be released first. */
export const FINALIZER = 'service.kubernetes.io/load-balancer-cleanup';

/** Whether this controller gives addresses to the Service. One with a class belongs to another controller. */
export function wantsAddresses({ metadata, spec }: Service): boolean {
  return (
    spec.type === 'LoadBalancer' && spec.loadBalancerClass === undefined && metadata.deletionTimestamp === undefined
  );
}

export function addressesOf({ status }: Service): readonly string[] {
  return (status.loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? []);
}

export function keyOf({ metadata }: Service): string {
  return `${metadata.namespace}/${metadata.name}`;
}
