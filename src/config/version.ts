/** The version in package.json; a test holds the two together. */
export const VERSION = '0.1.0';

/** As Kubernetes programs write it. */
export const GIT_VERSION = `v${VERSION}`;
