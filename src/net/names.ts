/** "namespace/name": how a Service is told from every other. */
export type NamespacedName = string & { readonly __brand: 'NamespacedName' };

export function namespacedName(namespace: string, name: string): NamespacedName {
  return `${namespace}/${name}` as NamespacedName;
}
