import type { LabelSelector } from '../label-selector.ts';
import type { ServiceAnnotation } from './service-annotations.ts';
import type { ServiceRequests } from './service-requests.ts';

/** A valid value of an annotation, as the operator's configuration has it, and what it asks for. */
export interface DefaultAnnotation {
  readonly name: ServiceAnnotation;
  readonly value: string;
  readonly requests: ServiceRequests;
}

/** Settings that the operator's configuration has for the Services with certain labels. */
export interface ServiceDefaults {
  /** The place in the configuration, such as "serviceDefaults[0]". */
  readonly path: string;
  readonly selector: Pick<LabelSelector, 'terms'>;
  readonly annotations: readonly DefaultAnnotation[];
  /** Whether they take precedence over the annotations of a Service. */
  readonly override: boolean;
}
