import { longVersion } from '../config/version.ts';

/** Returns what --version prints. Unlike kube-proxy, --version=vX.Y.Z does not change the printed version. */
export function versionText(request: string): string {
  const version = `kube-ipvs-proxy ${longVersion()}`;
  if (request !== 'raw') return version;
  return `${version}, Node.js ${process.version}, V8 ${process.versions.v8}, ${process.platform}/${process.arch}`;
}
