/** The version in package.json. */
export const VERSION = '0.3.0';

/** The version as Kubernetes programs write it. */
export const GIT_VERSION = `v${VERSION}`;

interface BuildInfo {
  /** The full hash. */
  readonly commit: string;
  /** "dirty" if the build includes uncommitted changes, else "clean". */
  readonly treeState: string;
  /** RFC 3339, in UTC. */
  readonly date: string;
}

declare const __build: BuildInfo | undefined;

/** The sources of this build, set by scripts/bundle.ts; "unknown" without git or outside of the bundle. */
export const BUILD: BuildInfo =
  typeof __build === 'undefined' ? { commit: 'unknown', treeState: 'unknown', date: 'unknown' } : __build;

/** Returns the version with the first twelve digits of the commit and the date of the build. */
export function longVersion(): string {
  return `${GIT_VERSION} (commit ${BUILD.commit.slice(0, 12)}, built ${BUILD.date})`;
}
