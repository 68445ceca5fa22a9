// Writes a software bill of materials in CycloneDX's format: node scripts/image/sbom.ts ARCH [ROOT]
// It names this Node.js with its bundled parts, and the npm packages; with the root file system ROOT of the image, also its
// operating system and Debian packages.
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';

/** A component, with the fields that scanners match by. */
interface Component {
  readonly type: 'application' | 'library' | 'operating-system';
  readonly name: string;
  readonly version: string;
  readonly purl?: string;
  readonly cpe?: string;
  readonly licenses?: readonly { readonly expression: string }[];
  readonly components?: readonly Component[];
}

interface LockedPackage {
  readonly version?: string;
  readonly license?: string;
  readonly dev?: true;
}

const PROJECT = path.resolve(import.meta.dirname, '../..');

/** Entries of process.versions that are no software. */
const NOT_PARTS: readonly string[] = ['node', 'modules', 'napi'];

function readJson(name: string): unknown {
  return JSON.parse(readFileSync(path.join(PROJECT, name), 'utf8'));
}

/** Scanners look for vulnerabilities of a package in the list of its distribution. */
function operatingSystem(root: string): Component[] {
  const release = readFileSync(path.join(root, 'usr/lib/os-release'), 'utf8');
  const field = (name: string): string => new RegExp(`^${name}="?([^"\\n]*)`, 'm').exec(release)?.[1] ?? '';
  const [system, version] = [field('ID'), field('VERSION_ID')];
  return [
    { type: 'operating-system', name: system, version },
    ...debianPackages(path.join(root, 'var/lib/dpkg/status.d'), system, version),
  ];
}

function debianPackages(status: string, system: string, release: string): Component[] {
  return readdirSync(status)
    .toSorted()
    .map((file) => {
      const fields = readFileSync(path.join(status, file), 'utf8');
      const field = (name: string): string => new RegExp(`^${name}: (.*)$`, 'm').exec(fields)?.[1] ?? '';
      const version = field('Version');
      const qualifiers = `arch=${field('Architecture')}&distro=${system}-${release}`;
      const purl = `pkg:deb/${system}/${file}@${encodeURIComponent(version)}?${qualifiers}`;
      return { type: 'library', name: file, version, purl };
    });
}

function nodeProgram(): Component {
  const { version } = process;
  const parts = Object.entries(process.versions)
    .filter(([name, value]) => !NOT_PARTS.includes(name) && value !== undefined && value !== '')
    .map(([name, value]): Component => ({
      type: 'library',
      name,
      version: value ?? '',
      purl: `pkg:generic/${name}@${value}`,
    }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const bare = version.slice(1);
  return {
    type: 'application',
    name: 'node',
    version: bare,
    purl: `pkg:generic/node@${bare}`,
    cpe: `cpe:2.3:a:nodejs:node.js:${bare}:*:*:*:*:*:*:*`,
    components: parts,
  };
}

/** The packages of the lock file that the bundle may contain. */
function npmPackages(): Component[] {
  const { packages } = readJson('package-lock.json') as { packages: Readonly<Record<string, LockedPackage>> };
  return Object.entries(packages)
    .filter(([folder, { dev }]) => folder !== '' && dev !== true)
    .map(([folder, { version = '', license }]) => {
      const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length);
      const licenses = license === undefined ? {} : { licenses: [{ expression: license }] };
      return { type: 'library', name, version, purl: `pkg:npm/${name.replace('@', '%40')}@${version}`, ...licenses };
    });
}

const [arch, root] = process.argv.slice(2);
if (arch === undefined) throw new Error('usage: node scripts/image/sbom.ts ARCH [ROOT]');
const { name, version, license } = readJson('package.json') as Readonly<Record<'name' | 'version' | 'license', string>>;
const document = {
  bomFormat: 'CycloneDX',
  specVersion: '1.5',
  version: 1,
  metadata: {
    component: {
      type: root === undefined ? 'application' : 'container',
      name,
      version,
      licenses: [{ expression: license }],
      purl: root === undefined ? `pkg:generic/${name}@${version}?arch=${arch}` : `pkg:oci/${name}?arch=${arch}`,
    },
  },
  components: [nodeProgram(), ...npmPackages(), ...(root === undefined ? [] : operatingSystem(root))],
};
process.stdout.write(`${JSON.stringify(document, undefined, 1)}\n`);
