/** The labels of API objects that this program reads. Other labels are discarded, so reading one is a compile error. */
export const LABEL = {
  serviceName: 'kubernetes.io/service-name',
  serviceProxyName: 'service.kubernetes.io/service-proxy-name',
  headless: 'service.kubernetes.io/headless',
  zone: 'topology.kubernetes.io/zone',
} as const;

/** The annotations of API objects that this program reads. Other annotations are discarded. */
export const ANNOTATION = {
  /** Set by the EndpointSlice controller: time of the Pod or Service change that caused this slice version. */
  lastChange: 'endpoints.kubernetes.io/last-change-trigger-time',
} as const;

export type Labels = { readonly [name in (typeof LABEL)[keyof typeof LABEL]]?: string };
export type Annotations = { readonly [name in (typeof ANNOTATION)[keyof typeof ANNOTATION]]?: string };

// The values of these labels do not matter. If the API server supports our selectors, it filters out such objects itself.

export function isOfAnotherProxy(labels: Labels): boolean {
  return LABEL.serviceProxyName in labels;
}

export function isOfHeadlessService(labels: Labels): boolean {
  return LABEL.headless in labels;
}
