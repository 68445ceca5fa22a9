/** Offsets of fields in the headers of a 64-bit, little-endian ELF file. */
const EHDR = { programs: 32, sections: 40, programSize: 54, programCount: 56, sectionSize: 58, sectionCount: 60 };
const PHDR = { type: 0, offset: 8, virtual: 16, physical: 24, fileSize: 32, memorySize: 40, align: 48 };
const SHDR = { type: 4, address: 16, offset: 24, size: 32, link: 40 };
const SYMBOL = { size: 24, value: 8, length: 16 };

const PT_LOAD = 1;
const PT_NOTE = 4;
const SHT_NOBITS = 8;
const SHT_DYNSYM = 11;

/** The largest page of the machines that we build for: arm64 kernels may have pages of 64 KiB. */
const PAGE = 0x10000;

/** A symbol of an ELF file. */
export interface Symbol {
  /** Where its bytes are in the file. */
  readonly offset: number;
  readonly size: number;
}

/** A 64-bit, little-endian ELF file. */
export class ElfFile {
  bytes: Buffer;

  constructor(bytes: Buffer) {
    if (bytes.readUInt32BE(0) !== 0x7f454c46 || bytes[4] !== 2 || bytes[5] !== 1)
      throw new Error('this is not a 64-bit, little-endian ELF file');
    this.bytes = bytes;
  }

  /** Finds a dynamic symbol whose name matches. */
  symbol(name: RegExp): Symbol {
    const dynamic = this.#sections().find((section) => section.readUInt32LE(SHDR.type) === SHT_DYNSYM);
    const strings = dynamic && this.#sections()[dynamic.readUInt32LE(SHDR.link)];
    if (dynamic === undefined || strings === undefined) throw new Error('the file has no dynamic symbols');
    const names = this.#content(strings);
    const symbols = this.#content(dynamic);
    for (let at = 0; at < symbols.length; at += SYMBOL.size) {
      const nameAt = symbols.readUInt32LE(at);
      if (!name.test(names.toString('latin1', nameAt, names.indexOf(0, nameAt)))) continue;
      const address = read(symbols, at + SYMBOL.value);
      return { offset: this.#offsetOf(address), size: read(symbols, at + SYMBOL.length) };
    }
    throw new Error(`the file has no dynamic symbol ${name}`);
  }

  /**
   * Removes the whole pages between two offsets of the file. Nothing moves in memory: the segment is split in two, and
   * the addresses in between are unmapped. The new program header takes the place of the one for notes.
   *
   * @returns the number of bytes that were removed
   */
  cutOut(from: number, to: number): number {
    const programs = this.#programs().map((program) => Buffer.from(program));
    const at = programs.findIndex((program) => isLoad(program) && contains(program, from) && contains(program, to));
    const before = programs[at];
    const note = programs.findIndex((program) => program.readUInt32LE(PHDR.type) === PT_NOTE);
    if (before === undefined || note < 0) throw new Error('no segment contains the bytes, or no header can be spared');
    // Addresses, not offsets, decide where a page begins.
    const shift = read(before, PHDR.virtual) - read(before, PHDR.offset);
    const start = roundUp(from + shift) - shift;
    const end = roundUp(to + shift + 1) - PAGE - shift;
    const removed = end - start;
    if (removed <= 0) return 0;
    const after = Buffer.from(before);
    this.#adjustSections(start, end);
    for (const program of programs) if (read(program, PHDR.offset) >= end) add(program, PHDR.offset, -removed);
    for (const field of [PHDR.fileSize, PHDR.memorySize]) write(before, field, start - read(before, PHDR.offset));
    const skipped = end - read(after, PHDR.offset);
    for (const field of [PHDR.virtual, PHDR.physical]) add(after, field, skipped);
    for (const field of [PHDR.fileSize, PHDR.memorySize]) add(after, field, -skipped);
    write(after, PHDR.offset, start);
    programs.splice(note, 1);
    programs.splice(programs.indexOf(before) + 1, 0, after);
    checkAlignment(programs);
    Buffer.concat(programs).copy(this.bytes, read(this.bytes, EHDR.programs));
    add(this.bytes, EHDR.sections, read(this.bytes, EHDR.sections) >= end ? -removed : 0);
    this.bytes = Buffer.concat([this.bytes.subarray(0, start), this.bytes.subarray(end)]);
    return removed;
  }

  #adjustSections(start: number, end: number): void {
    for (const section of this.#sections()) {
      const offset = read(section, SHDR.offset);
      if (offset >= end) write(section, SHDR.offset, offset - (end - start));
      else if (section.readUInt32LE(SHDR.type) !== SHT_NOBITS && offset + read(section, SHDR.size) > start)
        write(section, SHDR.size, start - offset);
    }
  }

  #sections(): Buffer[] {
    return this.#table(EHDR.sections, EHDR.sectionSize, EHDR.sectionCount);
  }

  #programs(): Buffer[] {
    return this.#table(EHDR.programs, EHDR.programSize, EHDR.programCount);
  }

  #table(offset: number, size: number, count: number): Buffer[] {
    const start = read(this.bytes, offset);
    const length = this.bytes.readUInt16LE(size);
    return Array.from({ length: this.bytes.readUInt16LE(count) }, (_, index) =>
      this.bytes.subarray(start + index * length, start + (index + 1) * length),
    );
  }

  #content(section: Buffer): Buffer {
    const offset = read(section, SHDR.offset);
    return this.bytes.subarray(offset, offset + read(section, SHDR.size));
  }

  #offsetOf(address: number): number {
    for (const program of this.#programs()) {
      const from = address - read(program, PHDR.virtual);
      if (isLoad(program) && from >= 0 && from < read(program, PHDR.fileSize)) return read(program, PHDR.offset) + from;
    }
    throw new Error(`no segment of the file has address ${address}`);
  }
}

function checkAlignment(programs: readonly Buffer[]): void {
  for (const program of programs.filter(isLoad)) {
    const distance = read(program, PHDR.virtual) - read(program, PHDR.offset);
    if (distance % read(program, PHDR.align) !== 0) throw new Error('a segment is no longer aligned to its pages');
  }
}

function isLoad(program: Buffer): boolean {
  return program.readUInt32LE(PHDR.type) === PT_LOAD;
}

function contains(program: Buffer, offset: number): boolean {
  const from = read(program, PHDR.offset);
  return offset >= from && offset <= from + read(program, PHDR.fileSize);
}

function roundUp(value: number): number {
  return Math.ceil(value / PAGE) * PAGE;
}

function read(bytes: Buffer, at: number): number {
  return Number(bytes.readBigUInt64LE(at));
}

function write(bytes: Buffer, at: number, value: number): void {
  bytes.writeBigUInt64LE(BigInt(value), at);
}

function add(bytes: Buffer, at: number, value: number): void {
  write(bytes, at, read(bytes, at) + value);
}
