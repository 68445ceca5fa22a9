/**
 * Reads the table of test images of a Kubernetes version.
 *
 * @param source text of test/utils/image/manifest.go of the module k8s.io/kubernetes
 * @returns the full name of each image, such as `registry.k8s.io/e2e-test-images/agnhost:2.59`, by its identifier (`Agnhost`)
 */
export function upstreamImages(source: string): ReadonlyMap<string, string> {
  const registries = new Map<string, string>();
  for (const [, field = '', host = ''] of source.matchAll(/^\s*(\w+Registry):\s+"([^"]+)",$/gm)) {
    registries.set(field, host);
  }
  const images = new Map<string, string>();
  const row = /configs\[(\w+)\] = Config\{list\.(\w+), "([^"]+)", "([^"]+)"\}/g;
  for (const [, id = '', registry = '', name = '', version = ''] of source.matchAll(row)) {
    const host = registries.get(registry);
    if (host === undefined) throw new Error(`the table of test images uses an unknown registry: ${registry}`);
    images.set(id, `${host}/${name}:${version}`);
  }
  return images;
}

/** Names of these images. An identifier that the version does not have is an error. */
export function namesOf(images: ReadonlyMap<string, string>, ids: readonly string[]): string[] {
  return ids.map((id) => {
    const name = images.get(id);
    if (name === undefined) throw new Error(`the table of test images has no ${id}`);
    return name;
  });
}
