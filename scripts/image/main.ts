// Packs root file systems as one image: node scripts/image/main.ts OUT.tar ARCH=FOLDER [ARCH=FOLDER]
// IMAGE_NAME is its name without a tag. GIT_COMMIT, SOURCE_DATE_EPOCH and IMAGE_SOURCE (the URL of the repository) go to its
// labels.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { settingsOf } from './dockerfile.ts';
import { writeOciArchive } from './oci-archive.ts';

const PROJECT = path.resolve(import.meta.dirname, '../..');

function read(name: string): string {
  return readFileSync(path.join(PROJECT, name), 'utf8');
}

const [out, ...platforms] = process.argv.slice(2);
if (out === undefined || platforms.length === 0) throw new Error('usage: main.ts OUT.tar ARCH=FOLDER...');
const { version } = JSON.parse(read('package.json')) as { version: string };
const { GIT_COMMIT = 'unknown', SOURCE_DATE_EPOCH = '0', IMAGE_SOURCE = '' } = process.env;
const created = Number(SOURCE_DATE_EPOCH);
const values = {
  VERSION: version,
  GIT_COMMIT,
  CREATED: new Date(created * 1000).toISOString().replace('.000', ''),
  IMAGE_SOURCE,
};
const digest = writeOciArchive(out, {
  name: `${process.env['IMAGE_NAME'] || 'docker.io/library/kube-ipvs-proxy'}:v${version}`,
  settings: settingsOf(read('Dockerfile'), values),
  created,
  platforms: platforms.map((platform) => {
    const [architecture = '', folder = ''] = platform.split('=');
    return { architecture, folder };
  }),
});
process.stdout.write(`${digest} ${out}\n`);
