/** A Kubernetes object as JSON. Only fields that the server reads are typed. */
export interface JsonObject {
  readonly [field: string]: unknown;
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: JsonMeta;
}

export interface JsonMeta {
  readonly [field: string]: unknown;
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
