import type { CommanderError } from 'commander';

/** Returns the message of a command line that cannot be parsed, in one line: "unknown option '--nope'". */
export function usageText({ message }: CommanderError): string {
  return message
    .replace(/^error: /, '')
    .replaceAll('\n', ' ')
    .replace(/\.$/, '');
}
