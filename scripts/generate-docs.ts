// Writes the pages of docs/ that come from tables in the code: node scripts/generate-docs.ts
import { writeFileSync } from 'node:fs';
import { pages } from './docs-pages.ts';

for (const { path, text } of pages()) writeFileSync(new URL(`../${path}`, import.meta.url), text);
