// Writes the page kube-ipvs-proxy(8) to standard output: SOURCE_DATE_EPOCH=... node scripts/release/write-man-page.ts
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { manPage } from './man-page.ts';

const manifest = readFileSync(path.join(import.meta.dirname, '../../package.json'), 'utf8');
const { version } = JSON.parse(manifest) as { version: string };
const time = new Date(Number(process.env['SOURCE_DATE_EPOCH'] ?? 0) * 1000);
process.stdout.write(manPage(version, time.toISOString().slice(0, 10)));
