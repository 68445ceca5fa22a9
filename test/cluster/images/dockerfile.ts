/** The entry point that a Dockerfile sets in its JSON form. */
export function entrypointOf(dockerfile: string): string[] {
  const list = /^ENTRYPOINT (\[.*\])$/m.exec(dockerfile)?.[1];
  if (list === undefined) throw new Error('the Dockerfile has no ENTRYPOINT in JSON form');
  return JSON.parse(list) as string[];
}
