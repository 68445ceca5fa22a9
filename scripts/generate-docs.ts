// Writes the pages and plots of docs/ that are generated: node scripts/generate-docs.ts
import { writeFileSync } from 'node:fs';
import { pages } from './docs-pages.ts';

for (const { path, text } of await pages()) writeFileSync(new URL(`../${path}`, import.meta.url), text);
