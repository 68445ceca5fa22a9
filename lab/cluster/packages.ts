import { access, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../../test/bed/command.ts';

/** Debian packages that nodes run. dropbear is a small SSH server; the two libraries are its own. */
const PACKAGES = ['runc', 'containernetworking-plugins', 'dropbear-bin', 'libtomcrypt1', 'libtommath1'];

/**
 * Downloads the packages of nodes and unpacks them into `folder`, unless it exists. They are not installed: this machine
 * may have a containerd of its own. Returns whether there was anything to do.
 */
export async function ensurePackages(folder: string): Promise<boolean> {
  if (await exists(folder)) return false;
  await mkdir(path.dirname(folder), { recursive: true });
  const work = await mkdtemp(`${folder}.`);
  try {
    await download(work);
    const root = path.join(work, 'root');
    await mkdir(root);
    for (const name of await readdir(work)) {
      if (name.endsWith('.deb')) await runCommand(['dpkg-deb', '--extract', path.join(work, name), root]);
    }
    await rename(root, folder);
  } finally {
    await rm(work, { recursive: true });
  }
  return true;
}

async function download(folder: string): Promise<void> {
  const script = 'cd "$1" && shift && apt-get -qq -o APT::Sandbox::User=root download "$@"';
  const argv = ['sh', '-c', script, 'download', folder, ...PACKAGES];
  const options = { timeoutMs: 300_000 };
  const first = await runCommand(argv, { ...options, allowFailure: true });
  if (first.status === 0) return;
  // The package index may be missing or old.
  await runCommand(['apt-get', '-qq', 'update'], options);
  await runCommand(argv, options);
}

export function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
