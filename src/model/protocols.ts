import { type Protocol, isProtocol } from '../net/protocol.ts';

/** The API's protocol word; TCP where none is given. */
export function toProtocol(text: string): Protocol | undefined {
  if (text === '') return 'TCP';
  return isProtocol(text) ? text : undefined;
}
