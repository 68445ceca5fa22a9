import { type Cidr, cidrFamily } from '../base/cidr.ts';
import type { PlanConfig } from './plan-config.ts';

/** Returns the networks of --ipvs-local-route-cidrs whose IP family is enabled. They do not depend on Services. */
export function planLocalRoutes({ families, localRouteCidrs = [] }: PlanConfig): readonly Cidr[] {
  return localRouteCidrs.filter((cidr) => families.includes(cidrFamily(cidr)));
}
