import { GIT_VERSION } from '../config/version.ts';

/** What --version prints; undefined when the value asks for nothing, an error sentence when it is none. */
export function versionText(value: string): { readonly text: string } | { readonly error: string } | undefined {
  if (value === 'false') return undefined;
  if (value === 'true') return { text: `kube-ipvs-proxy ${GIT_VERSION}` };
  if (value === 'raw') {
    return {
      text: `kube-ipvs-proxy ${GIT_VERSION}, Node.js ${process.version}, V8 ${process.versions.v8}, ${process.platform}/${process.arch}`,
    };
  }
  // kube-proxy lets the caller say which version it claims to be; only its own is true of this program.
  if (/^v\d+\.\d+\.\d+/.test(value)) return { text: `kube-ipvs-proxy ${GIT_VERSION}` };
  return { error: `--version: want true, false, raw or a version such as v1.2.3, got ${JSON.stringify(value)}` };
}
