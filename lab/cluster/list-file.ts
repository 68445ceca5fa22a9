/** JSON of lists of objects: one object a line, so that a change of one is one line in a diff. */
export function listsToJson(lists: Readonly<Record<string, readonly object[]>>): string {
  const texts = Object.entries(lists).map(
    ([name, items]) =>
      `  ${JSON.stringify(name)}: [\n${items.map((item) => `    ${JSON.stringify(item)}`).join(',\n')}\n  ]`,
  );
  return `{\n${texts.join(',\n')}\n}\n`;
}

export function compareText(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
