import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import path from 'node:path';
import { goEnvironment } from '../go.ts';
import type { Sources } from './list.ts';
import { upstreamImages } from './upstream-images.ts';

const HERE = import.meta.dirname;
const PROJECT = path.resolve(HERE, '../../..');

/**
 * Finds or makes everything that the images consist of. Programs must be in `CACHE/kubernetes/VERSION/bin`, and
 * `CACHE/kubernetes/VERSION/mod` must be a Go module that requires k8s.io/kubernetes of that version.
 */
export function collectSources(cache: string, kubernetes: string): Sources {
  const version = path.join(cache, 'kubernetes', kubernetes);
  const bin = path.join(version, 'bin');
  for (const name of ['agnhost', 'coredns', 'kube-proxy', 'regression-issue-74839'])
    requireFile(path.join(bin, name), 'build Kubernetes first');
  const ours = path.join(PROJECT, 'build/image.tar');
  requireFile(ours, 'run `make image` first');
  const module = run('go', ['list', '-m', '-f', '{{.Dir}}', 'k8s.io/kubernetes'], path.join(version, 'mod'));
  const debian = debianRoot(cache);
  return {
    bin,
    agnhost: path.join(module, 'test/images/agnhost'),
    debian,
    pause: compiledPause(path.join(cache, 'pause')),
    ours,
    kubernetesVersion: kubernetes,
    corednsVersion: /^CoreDNS-(\S+)/.exec(run(path.join(bin, 'coredns'), ['-version']))?.[1] ?? 'unknown',
    upstream: upstreamImages(readFileSync(path.join(module, 'test/utils/image/manifest.go'), 'utf8')),
  };
}

/** Returns the Debian root of the cache, after making it if it is missing or old. */
export function debianRoot(cache: string): string {
  const root = path.join(cache, 'debian', 'root');
  run(path.join(HERE, 'debian-root.sh'), [root]);
  return root;
}

function compiledPause(folder: string): string {
  const file = path.join(folder, 'pause');
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true });
    run('gcc', ['-O2', '-Wall', '-Werror', '-static', '-o', `${file}.new`, path.join(HERE, 'pause.c')]);
    renameSync(`${file}.new`, file);
  }
  return file;
}

function requireFile(file: string, advice: string): void {
  if (!existsSync(file)) throw new Error(`${file} does not exist: ${advice}`);
}

function run(program: string, args: readonly string[], cwd = PROJECT): string {
  const env = { ...goEnvironment(), GOFLAGS: '-mod=mod' };
  return execFileSync(program, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();
}
