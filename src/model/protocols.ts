import { type Protocol, isProtocol } from '../base/protocol.ts';

/** Parses the protocol of an API object; the default is TCP. Returns undefined for an unknown protocol. */
export function toProtocol(text: string): Protocol | undefined {
  if (text === '') return 'TCP';
  return isProtocol(text) ? text : undefined;
}
