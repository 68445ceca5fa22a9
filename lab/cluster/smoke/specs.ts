/**
 * Upstream's specs that a change must pass, by their full names: at least one for each way that packets of a Service take.
 * They take a minute each at most when nothing else runs.
 */
export const SMOKE_SPECS: readonly string[] = [
  '[sig-network] Services should serve a basic endpoint from pods [Conformance]',
  '[sig-network] Services should be able to create a functioning NodePort service [Conformance]',
  '[sig-network] Services should be rejected when no endpoints exist',
  '[sig-network] Services should have session affinity work for service with type clusterIP [LinuxOnly] [Conformance]',
  '[sig-network] Services should support externalTrafficPolicy=Local for type=NodePort',
  '[sig-network] Services should respect internalTrafficPolicy=Local Pod to Pod',
  '[sig-network] Services should preserve source pod IP for traffic thru service cluster IP [LinuxOnly]',
  '[sig-network] Services should allow pods to hairpin back to themselves through services',
  '[sig-network] Services should fail health check node port if there are only terminating endpoints',
  '[sig-network] Conntrack should be able to preserve UDP traffic when server pod cycles for a NodePort service',
  '[sig-network] Conntrack proxy implementation should not be vulnerable to the invalid conntrack state bug [Privileged]',
  '[sig-network] DNS should provide DNS for services [Conformance]',
];

const GROUP = '[sig-network] ';

/** A regular expression for run.sh: it matches the names after `[sig-network] `, each to its end. */
export function focusOf(specs: readonly string[]): string {
  const names = specs.map((spec) => spec.slice(GROUP.length).replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`));
  return `(${names.join('|')})`;
}
