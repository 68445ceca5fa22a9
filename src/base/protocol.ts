/** The transport protocols that a Service port can use. */
export type Protocol = 'TCP' | 'UDP' | 'SCTP';

/** linux/in.h: IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP. */
export const PROTOCOL_NUMBER: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 };

export function isProtocol(text: string): text is Protocol {
  return text === 'TCP' || text === 'UDP' || text === 'SCTP';
}

export function protocolFromNumber(number: number): Protocol | undefined {
  switch (number) {
    case 6:
      return 'TCP';
    case 17:
      return 'UDP';
    case 132:
      return 'SCTP';
    default:
      return undefined;
  }
}
