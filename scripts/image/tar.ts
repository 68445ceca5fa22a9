import { execFileSync } from 'node:child_process';

/** Order, owners and times do not depend on the machine, so the same files give the same bytes. */
const REPRODUCIBLE = ['--sort=name', '--format=gnu', '--owner=0', '--group=0', '--numeric-owner', '--mtime=@0'];

/** Packs files of a folder into an archive whose bytes depend on nothing but the files' names, modes and content. */
export function tar(archive: string, folder: string, what: readonly string[]): void {
  const args = ['--create', `--file=${archive}`, `--directory=${folder}`, ...REPRODUCIBLE, ...what];
  execFileSync('tar', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
