/** "namespace/name": how a Service is told from every other. */
export type NamespacedName = string & { readonly __brand: 'NamespacedName' };

export function namespacedName(namespace: string, name: string): NamespacedName {
  // Joined, not as a template: that would be a string in three parts, kept for as long as the object is known.
  return [namespace, name].join('/') as NamespacedName;
}
