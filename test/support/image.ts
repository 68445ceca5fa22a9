import { readFile } from 'node:fs/promises';
import path from 'node:path';

/** The image's root file system as `make image` leaves it. */
export const IMAGE = path.resolve('build/image');

// As in a container runtime: read-only root file system; /proc, /sys and /dev; tmpfs at /run; mounted configuration.
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
 * Returns a command line that runs `argv` in the image, with the directory `configuration` mounted at
 * /etc/kube-ipvs-proxy. It needs its own mount namespace, which `ip netns exec` provides.
 */
export function inContainer(configuration: string, argv: readonly string[]): readonly string[] {
  return ['/bin/sh', '-c', CONTAINER, 'container', IMAGE, path.resolve(configuration), ...argv];
}

/** Returns the environment that the image sets, from the Dockerfile. */
export async function imageEnvironment(): Promise<Readonly<Record<string, string>>> {
  const dockerfile = await readFile('Dockerfile', 'utf8');
  return Object.fromEntries(
    Array.from(dockerfile.matchAll(/^ENV (\w+)=(.*)$/gm), ([, name = '', value = '']) => [name, value]),
  );
}

/** Returns the image's entrypoint, from the Dockerfile. */
export async function imageEntrypoint(): Promise<readonly string[]> {
  const dockerfile = await readFile('Dockerfile', 'utf8');
  return JSON.parse(/^ENTRYPOINT (.*)$/m.exec(dockerfile)?.[1] ?? '') as string[];
}
