import { type Cidr, cidrFamily } from '../net/cidr.ts';
import type { PlanConfig } from './plan-config.ts';

/** The local routes that stand for the addresses of services: no matter which services there are. */
export function planLocalRoutes({ families, localRouteCidrs = [] }: PlanConfig): readonly Cidr[] {
  return localRouteCidrs.filter((cidr) => families.includes(cidrFamily(cidr)));
}
