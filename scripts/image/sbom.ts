// Writes the software bill of materials of the image in CycloneDX's format: node scripts/image/sbom.ts ARCH STATUS
// It names the Debian packages in the folder STATUS, this Node.js with its bundled parts, and the npm packages.
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

function debianPackages(status: string): Component[] {
  return readdirSync(status)
    .toSorted()
    .map((file) => {
      const fields = readFileSync(path.join(status, file), 'utf8');
      const field = (name: string): string => new RegExp(`^${name}: (.*)$`, 'm').exec(fields)?.[1] ?? '';
      const version = field('Version');
      const purl = `pkg:deb/debian/${file}@${encodeURIComponent(version)}?arch=${field('Architecture')}`;
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

const [arch, status] = process.argv.slice(2);
if (arch === undefined || status === undefined) throw new Error('usage: node scripts/image/sbom.ts ARCH STATUS');
const { name, version, license } = readJson('package.json') as Readonly<Record<'name' | 'version' | 'license', string>>;
const document = {
  bomFormat: 'CycloneDX',
  specVersion: '1.5',
  version: 1,
  metadata: {
    component: {
      type: 'container',
      name,
      version,
      licenses: [{ expression: license }],
      purl: `pkg:oci/${name}?arch=${arch}`,
    },
  },
  components: [nodeProgram(), ...npmPackages(), ...debianPackages(status)],
};
process.stdout.write(`${JSON.stringify(document, undefined, 1)}\n`);
