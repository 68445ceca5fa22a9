import { MAX_VALUE } from '../../base/service/annotation-value.ts';
import { startOfText } from '../../base/text/start-of-text.ts';
import { ANNOTATION_PREFIX } from '../../base/service/service-annotations.ts';
import { type LabelSelector, selects } from '../../base/label-selector.ts';
import type { ServiceDefaults } from '../../base/service/service-defaults.ts';
import { EMPTY } from '../../base/trim-capacity.ts';
import type { Interner } from './interner.ts';
import { type JsonRecord, integerOf, isRecord, itemsOf, recordOf, textOf, textOr, textsOf } from './json.ts';
import type { LoadBalancerIngress, Service, ServicePort } from './objects.ts';
import { type Trimmed, trimObject } from './trim-objects.ts';

/** The API server's default for sessionAffinity ClientIP: three hours. */
const DEFAULT_AFFINITY_SECONDS = 10_800;

function trimPort(value: unknown, interner: Interner): ServicePort | undefined {
  if (!isRecord(value)) return undefined;
  return {
    name: interner.intern(textOr(value['name'], '')),
    protocol: interner.intern(textOr(value['protocol'], 'TCP')),
    // An invalid port number becomes 0: model/ skips the port with a warning.
    port: integerOf(value['port']) ?? 0,
    nodePort: integerOf(value['nodePort']) ?? 0,
  };
}

function trimIngress(value: unknown, interner: Interner): LoadBalancerIngress | undefined {
  if (!isRecord(value)) return undefined;
  const ip = textOr(value['ip'], '');
  const ipMode = textOf(value['ipMode']);
  if (ip === '') return undefined;
  return { ip, ...(ipMode === undefined ? {} : { ipMode: interner.intern(ipMode) }) };
}

function affinityTimeout(spec: JsonRecord, affinity: string): { readonly affinityTimeoutSeconds?: number } {
  const clientIp = recordOf(recordOf(spec['sessionAffinityConfig'])['clientIP']);
  const seconds = integerOf(clientIp['timeoutSeconds']);
  if (seconds !== undefined) return { affinityTimeoutSeconds: seconds };
  return affinity === 'ClientIP' ? { affinityTimeoutSeconds: DEFAULT_AFFINITY_SECONDS } : {};
}

/** The most annotations of ours that a Service may have; the API limits their total size only. */
const MAX_ANNOTATIONS = 16;

function ownAnnotations(value: unknown): Pick<Service, 'annotations'> {
  const annotations: { readonly name: string; readonly value: string }[] = [];
  const record = recordOf(value);
  for (const key in record) {
    if (!key.startsWith(ANNOTATION_PREFIX) || annotations.length === MAX_ANNOTATIONS) continue;
    const text = textOf(record[key]);
    if (text === undefined) continue;
    // One character more than is valid shows that the value is too long.
    annotations.push({ name: key.slice(ANNOTATION_PREFIX.length), value: startOfText(text, MAX_VALUE + 1) });
  }
  return annotations.length === 0 ? {} : { annotations };
}

/** The selectors in the operator's configuration. They are evaluated here, because the labels are not kept. */
export interface ServiceSelection {
  /** Selects the Services with traffic metrics of their own; none if undefined. */
  readonly measured?: LabelSelector | undefined;
  readonly defaults?: readonly ServiceDefaults[];
}

const NOTHING_SELECTED: ServiceSelection = {};

function selectedBy(
  { measured, defaults = EMPTY }: ServiceSelection,
  labels: JsonRecord,
): Pick<Service, 'measured' | 'defaults'> {
  const ofService = defaults.filter(({ selector }) => selects(selector, labels));
  return {
    ...(measured !== undefined && selects(measured, labels) ? { measured: true } : {}),
    ...(ofService.length === 0 ? {} : { defaults: ofService }),
  };
}

/** Reads a v1 Service. Absent fields get the API server's defaults. */
export function trimService(
  value: unknown,
  interner: Interner,
  selection: ServiceSelection = NOTHING_SELECTED,
): Trimmed<Service> {
  return trimObject('Service', value, interner, (object, meta) => {
    const spec = recordOf(object['spec']);
    const loadBalancer = recordOf(recordOf(object['status'])['loadBalancer']);
    const sessionAffinity = interner.intern(textOr(spec['sessionAffinity'], 'None'));
    const clusterIPs = textsOf(spec['clusterIPs']);
    const { creationTimestamp: created, labels, annotations } = recordOf(object['metadata']);
    const creationTimestamp = textOf(created);
    return {
      meta,
      ...(creationTimestamp === undefined ? {} : { creationTimestamp }),
      type: interner.intern(textOr(spec['type'], 'ClusterIP')),
      clusterIP: textOr(spec['clusterIP'], ''),
      clusterIPs,
      ipFamilies: itemsOf(spec['ipFamilies'], (item) => (typeof item === 'string' ? interner.intern(item) : undefined)),
      externalIPs: textsOf(spec['externalIPs']),
      ports: itemsOf(spec['ports'], (item) => trimPort(item, interner)),
      sessionAffinity,
      ...affinityTimeout(spec, sessionAffinity),
      internalTrafficPolicy: interner.intern(textOr(spec['internalTrafficPolicy'], 'Cluster')),
      externalTrafficPolicy: interner.intern(textOr(spec['externalTrafficPolicy'], 'Cluster')),
      healthCheckNodePort: integerOf(spec['healthCheckNodePort']) ?? 0,
      loadBalancerSourceRanges: textsOf(spec['loadBalancerSourceRanges']),
      loadBalancerIngress: itemsOf(loadBalancer['ingress'], (item) => trimIngress(item, interner)),
      ...selectedBy(selection, recordOf(labels)),
      ...ownAnnotations(annotations),
    };
  });
}
