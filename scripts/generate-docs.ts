// Writes the pages, the plots and the files of the chart that are generated: node scripts/generate-docs.ts
import { writeFileSync } from 'node:fs';
import { pages } from './docs-pages.ts';

for (const { path, text } of await pages()) writeFileSync(new URL(`../${path}`, import.meta.url), text);
