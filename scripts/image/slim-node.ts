// Makes a Node.js program smaller: node scripts/image/slim-node.ts IN OUT
// Removes ICU's data of languages other than English, 18 MB that no node needs. IN is a stripped program.
import { readFileSync, writeFileSync } from 'node:fs';
import { ElfFile } from './elf.ts';
import { englishIcuData } from './icu-data.ts';

const [input, output] = process.argv.slice(2);
if (input === undefined || output === undefined) throw new Error('usage: node scripts/image/slim-node.ts IN OUT');
const elf = new ElfFile(readFileSync(input));
const { offset, size } = elf.symbol(/^icudt\d+_dat$/);
const data = englishIcuData(elf.bytes.subarray(offset, offset + size));
data.copy(elf.bytes, offset);
elf.bytes.fill(0, offset + data.length, offset + size);
elf.cutOut(offset + data.length, offset + size);
writeFileSync(output, elf.bytes, { mode: 0o755 });
