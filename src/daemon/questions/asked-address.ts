import { readIp } from '../../base/read-ip.ts';
import { toPort } from '../../base/port.ts';
import type { Protocol } from '../../base/protocol.ts';
import type { AskedAddress } from '../../explain/address-reply.ts';
import { QuestionError } from './question-error.ts';

const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP'];

/** Parses an address with an optional port and protocol: "10.96.0.1", "10.96.0.1:80", "[fd00::1]:53/UDP". */
export function askedAddress(text: string): AskedAddress {
  const whole = readIp(text);
  if (whole !== undefined) return { address: whole, protocols: PROTOCOLS };
  const [, bracketed, plain = '', number, asked] = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)(?:\/(\w+))?$/.exec(text) ?? [];
  const address = readIp(bracketed ?? plain);
  const shown = JSON.stringify(text.slice(0, 80));
  if (address === undefined) throw new QuestionError(400, `${shown} is not IP, IP:PORT or IP:PORT/PROTOCOL`);
  const port = toPort(Number(number));
  if (port === undefined) throw new QuestionError(400, `${shown}: want a port from 1 to 65535`);
  const protocols = PROTOCOLS.filter((protocol) => asked === undefined || protocol === asked.toUpperCase());
  if (protocols.length === 0)
    throw new QuestionError(400, `${shown}: want one of the protocols ${PROTOCOLS.join(', ')}`);
  return { address, port, protocols };
}
