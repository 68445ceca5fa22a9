/**
 * The "namespace/name" of a Service. It is a string because it is used as a Map key: an object with namespace, name and
 * key would take 80 bytes more for each Service.
 */
export type NamespacedName = string & { readonly __brand: 'NamespacedName' };

export function namespacedName(namespace: string, name: string): NamespacedName {
  // join() creates a flat string. A template literal would create a rope of three parts, which takes more memory.
  return [namespace, name].join('/') as NamespacedName;
}

export function splitName(key: NamespacedName): { readonly namespace: string; readonly name: string } {
  const slash = key.indexOf('/');
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}
