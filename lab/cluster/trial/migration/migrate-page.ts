import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { PROJECT } from '../../folders.ts';

interface Section {
  readonly lines: readonly string[];
}

/** docs/migrate.md: its commands, by the headings above them. What a trial does is what the page says. */
export class MigratePage {
  readonly #sections: ReadonlyMap<string, Section>;

  constructor(text: string) {
    const sections = new Map<string, { readonly lines: string[] }>();
    let lines: string[] = [];
    let fenced = false;
    for (const line of text.split('\n')) {
      if (line.startsWith('```')) fenced = !fenced;
      const heading = fenced ? undefined : /^##+ (.*)$/.exec(line)?.[1];
      if (heading === undefined) lines.push(line);
      else sections.set(heading, { lines: (lines = []) });
    }
    this.#sections = sections;
  }

  static async read(): Promise<MigratePage> {
    return new MigratePage(await readFile(path.join(PROJECT, 'docs/migrate.md'), 'utf8'));
  }

  /** The code block of a section that has this text. Throws if not exactly one has. */
  block(heading: string, text: string): string {
    const found = this.#blocks(heading).filter((block) => block.includes(text));
    const [block] = found;
    if (block === undefined || found.length > 1) {
      throw new Error(`docs/migrate.md: ${found.length} code blocks in "${heading}" have the text ${text}`);
    }
    return block;
  }

  /** A command in the table of a section. Throws if not exactly one row has this text. */
  tableCommand(heading: string, text: string): string {
    const rows = this.#section(heading).lines.filter((line) => line.startsWith('| `') && line.includes(text));
    const [, command] = /^\| `((?:[^`\\]|\\.)*)`/.exec(rows[0] ?? '') ?? [];
    if (command === undefined || rows.length > 1) {
      throw new Error(`docs/migrate.md: ${rows.length} rows in "${heading}" have a command with the text ${text}`);
    }
    return command.replaceAll(String.raw`\|`, '|');
  }

  #blocks(heading: string): readonly string[] {
    const text = `\n${this.#section(heading).lines.join('\n')}\n`;
    return [...text.matchAll(/\n```\w*\n(.*?\n)```(?=\n)/gs)].map(([, block = '']) => block);
  }

  #section(heading: string): Section {
    const section = this.#sections.get(heading);
    if (section === undefined) throw new Error(`docs/migrate.md has no section "${heading}"`);
    return section;
  }
}
