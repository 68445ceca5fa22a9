/** The prefix of the annotations by which a Service asks for settings of its own. */
export const ANNOTATION_PREFIX = 'kube-ipvs-proxy/';

/** The names of these annotations, without the prefix. */
export const SERVICE_ANNOTATIONS = [
  'scheduler',
  'scheduler-flags',
  'weights',
  'connection-limit',
  'drain-timeout',
  'session-affinity-mask',
  'one-packet',
  'forwarding',
  'endpoint-check',
] as const;

export type ServiceAnnotation = (typeof SERVICE_ANNOTATIONS)[number];

/** The annotations that any Service may use if --service-annotations is not given. */
export const DEFAULT_ANNOTATIONS: readonly ServiceAnnotation[] = [
  'scheduler',
  'scheduler-flags',
  'weights',
  'drain-timeout',
  'endpoint-check',
];

export function isServiceAnnotation(name: string): name is ServiceAnnotation {
  return (SERVICE_ANNOTATIONS as readonly string[]).includes(name);
}
