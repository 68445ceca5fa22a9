import type { ServiceReply } from '../../src/explain/replies.ts';

/** What `explain` says of a Service: the verdict, the operator's settings of it, the notes and the endpoints of each port. */
export function explainLines({ service, verdict, annotations = [], ports, notes }: ServiceReply): string[] {
  return [
    verdict,
    ...annotations.flatMap(({ name, value, from, inForce }) =>
      from === undefined
        ? []
        : [`${service} set by ${from}: ${name} ${value}: ${inForce ? 'in force' : 'not in force'}`],
    ),
    ...notes.map((note) => `${service} note: ${note}`),
    ...ports.flatMap(({ port, protocol, endpoints, notes: own }) => [
      ...own.map((note) => `${service} ${port}/${protocol} note: ${note}`),
      ...endpoints.map(({ slice, at, use, why }) => {
        const used = use === 'none' ? 'not used' : use === 'all' ? 'used' : `used ${use}`;
        return `${service} ${port}/${protocol} ${slice || '-'} ${at}: ${used}${why === undefined ? '' : `: ${why}`}`;
      }),
    ]),
  ];
}
