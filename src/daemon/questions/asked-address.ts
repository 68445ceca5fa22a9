import { parseIp } from '../../base/ip.ts';
import { toPort } from '../../base/port.ts';
import type { Protocol } from '../../base/protocol.ts';
import type { AskedAddress } from '../../explain/address-reply.ts';
import { QuestionError } from './question-error.ts';

const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP'];

/** Parses an address and port, with an optional protocol: "10.96.0.1:80", "[fd00::1]:53/UDP". */
export function askedAddress(text: string): AskedAddress {
  const [, bracketed, plain = '', number, asked] = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)(?:\/(\w+))?$/.exec(text) ?? [];
  const address = parseIp(bracketed ?? plain);
  const port = toPort(Number(number));
  const protocols = PROTOCOLS.filter((protocol) => asked === undefined || protocol === asked.toUpperCase());
  if (address === undefined || port === undefined || protocols.length === 0) {
    throw new QuestionError(400, `${JSON.stringify(text.slice(0, 80))} is not IP:PORT or IP:PORT/PROTOCOL`);
  }
  return { address, port, protocols };
}
