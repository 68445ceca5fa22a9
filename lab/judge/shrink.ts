import type { Case } from './case/case.ts';

type Json = string | number | boolean | null | undefined | readonly Json[] | { readonly [key: string]: Json };

/** Fields of objects that an API server accepts without them, or whose absence is the default of a setting. */
const OPTIONAL = new Set([
  'annotations',
  'externalIPs',
  'forNodes',
  'forZones',
  'healthCheckNodePort',
  'hints',
  'ipMode',
  'loadBalancerSourceRanges',
  'nodeName',
  'nodePort',
  'publishNotReadyAddresses',
  'ready',
  'serving',
  'terminating',
  'topology.kubernetes.io/zone',
  'service.kubernetes.io/headless',
  'service.kubernetes.io/service-proxy-name',
  'service.kubernetes.io/topology-mode',
  'trafficDistribution',
  'zone',
  'AllowServiceExternalIPs',
]);

/** Lists that belong to other fields. */
const WHOLE = new Set(['addresses', 'clusterIPs', 'interfaces', 'ipFamilies']);

/** So many smaller cases are tried: each is played on both sides. */
const MOST_TRIES = 1_500;

/** A small case that still fails: nothing can be left out of it alone. `fails` is asked for one case after the other. */
export async function shrink(given: Case, fails: (smaller: Case) => Promise<boolean>): Promise<Case> {
  let current = given;
  let tries = 0;
  search: for (;;) {
    for (const candidate of smaller(current as unknown as Json)) {
      if (++tries > MOST_TRIES) return current;
      if (await fails(candidate as unknown as Case)) {
        current = candidate as unknown as Case;
        continue search;
      }
    }
    return current;
  }
}

/** The value with one element or optional field left out, at any depth; the largest parts first. */
function* smaller(value: Json): Generator<Json> {
  if (Array.isArray(value)) {
    const items = value as readonly Json[];
    for (const index of items.keys()) yield items.toSpliced(index, 1);
    for (const [index, item] of items.entries()) {
      for (const less of smaller(item)) yield items.with(index, less);
    }
  } else if (typeof value === 'object' && value !== null) {
    const fields = value as { readonly [key: string]: Json };
    for (const key of Object.keys(fields).filter((name) => OPTIONAL.has(name))) {
      const { [key]: _left, ...rest } = fields;
      yield rest;
    }
    for (const [key, field] of Object.entries(fields).filter(([name]) => !WHOLE.has(name))) {
      for (const less of smaller(field)) yield { ...fields, [key]: less };
    }
  }
}
