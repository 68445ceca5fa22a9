import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ElfFile } from '../../../scripts/image/elf.ts';

/** A program with a megabyte of constants before a string that it prints, and an exception that must find its handler. */
const SOURCE = `
#include <cstdio>
#include <stdexcept>
extern "C" __attribute__((visibility("default"))) const unsigned char data_1[1 << 20] = {'d'};
static const char *volatile text = "the end";
int main() {
  try { throw std::runtime_error("thrown"); }
  catch (const std::exception &error) { std::printf("%c %s %s\\n", data_1[0], error.what(), text); }
}
`;

const MEBIBYTE = 2 ** 20;
let work = '';
let program = '';

beforeAll(() => {
  work = mkdtempSync(path.join(tmpdir(), 'elf-'));
  program = path.join(work, 'program');
  writeFileSync(`${program}.cc`, SOURCE);
  execFileSync('g++', ['-no-pie', '-rdynamic', '-O1', '-o', program, `${program}.cc`]);
});
afterAll(() => rmSync(work, { recursive: true }));

function run(bytes: Buffer): string {
  const file = path.join(work, 'changed');
  writeFileSync(file, bytes, { mode: 0o755 });
  return execFileSync(file, { encoding: 'utf8' });
}

describe('a program without a part of its constants', () => {
  test('runs as before, and is smaller by whole pages', () => {
    const elf = new ElfFile(readFileSync(program));
    const before = elf.bytes.length;
    const { offset, size } = elf.symbol(/^data_\d$/);
    expect(size).toBe(MEBIBYTE);
    expect(elf.bytes[offset]).toBe('d'.charCodeAt(0));
    const removed = elf.cutOut(offset + 16, offset + size);
    expect(removed % 0x10000).toBe(0);
    expect(removed).toBeGreaterThan(MEBIBYTE - 3 * 0x10000);
    expect(elf.bytes.length).toBe(before - removed);
    expect(run(elf.bytes)).toBe('d thrown the end\n');
  });

  test('tools still read its sections', () => {
    const elf = new ElfFile(readFileSync(program));
    const { offset, size } = elf.symbol(/^data_1$/);
    elf.cutOut(offset, offset + size);
    run(elf.bytes);
    const args = ['--wide', '--sections', '--segments', '--dyn-syms', path.join(work, 'changed')];
    const { status, stdout, stderr } = spawnSync('readelf', args, { encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toContain(' data_1');
  });

  test('less than a page is not removed', () => {
    const elf = new ElfFile(readFileSync(program));
    const { offset } = elf.symbol(/^data_1$/);
    expect(elf.cutOut(offset, offset + 100)).toBe(0);
    expect(elf.bytes.equals(readFileSync(program))).toBe(true);
  });

  test('bytes that are in no segment are an error', () => {
    const elf = new ElfFile(readFileSync(program));
    expect(() => elf.cutOut(0, elf.bytes.length)).toThrow('no segment contains the bytes');
  });

  test('an unknown symbol, and a file of another kind, are errors', () => {
    expect(() => new ElfFile(readFileSync(program)).symbol(/^icudt/)).toThrow('no dynamic symbol /^icudt/');
    expect(() => new ElfFile(Buffer.alloc(64))).toThrow('not a 64-bit, little-endian ELF file');
  });
});
