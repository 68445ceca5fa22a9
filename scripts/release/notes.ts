// Prints the notes of a version from CHANGELOG.md: node scripts/release/notes.ts 0.2.0
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { notesOf } from './changelog.ts';

const [version] = process.argv.slice(2);
if (version === undefined) throw new Error('usage: node scripts/release/notes.ts VERSION');
process.stdout.write(notesOf(readFileSync(path.join(import.meta.dirname, '../../CHANGELOG.md'), 'utf8'), version));
