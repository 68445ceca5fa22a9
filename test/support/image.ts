import { readFile } from 'node:fs/promises';
import path from 'node:path';

/** The image's root file system as `make image` leaves it. */
export const IMAGE = path.resolve('build/image');

// As a container runtime does: the root file system read-only; /proc, /sys and /dev; memory at /run; the configuration mounted.
const CONTAINER = `
set -e
root=/run/image-root
mkdir -p "$root"
mount --bind "$1" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount --bind "$2" "$root/etc/kube-ipvs-proxy"
shift 2
exec chroot "$root" "$@"
`;

/**
 * A command line that runs another in the image, with `configuration` (a directory) mounted at /etc/kube-ipvs-proxy. To be run where
 * its mounts are its own: `ip netns exec` gives each process a mount namespace.
 */
export function inContainer(configuration: string, argv: readonly string[]): readonly string[] {
  return ['/bin/sh', '-c', CONTAINER, 'container', IMAGE, path.resolve(configuration), ...argv];
}

/** The environment that the image sets: from the Dockerfile. */
export async function imageEnvironment(): Promise<Readonly<Record<string, string>>> {
  const dockerfile = await readFile('Dockerfile', 'utf8');
  return Object.fromEntries(
    Array.from(dockerfile.matchAll(/^ENV (\w+)=(.*)$/gm), ([, name = '', value = '']) => [name, value]),
  );
}

/** How the image starts: from the Dockerfile. */
export async function imageEntrypoint(): Promise<readonly string[]> {
  const dockerfile = await readFile('Dockerfile', 'utf8');
  return JSON.parse(/^ENTRYPOINT (.*)$/m.exec(dockerfile)?.[1] ?? '') as string[];
}
