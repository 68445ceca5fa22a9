/** Returns the section of a version in a changelog, without its heading. The version may be written `[0.2.0] - 2026-12-01`. */
export function notesOf(changelog: string, version: string): string {
  const sections = changelog.split(/^## /m).slice(1);
  const section = sections.find((text) => /^\[?([^\]\s]+)/.exec(text)?.[1] === version);
  if (section === undefined) throw new Error(`CHANGELOG.md has no section ${version}`);
  return `${section.slice(section.indexOf('\n')).trim()}\n`;
}
