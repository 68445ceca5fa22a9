/** The reaction to endpoints that do not answer: none, a report, or new connections go to others. */
export const ENDPOINT_CHECK_MODES = ['off', 'observe', 'act'] as const;

export type EndpointCheckMode = (typeof ENDPOINT_CHECK_MODES)[number];

export function isEndpointCheckMode(text: string): text is EndpointCheckMode {
  return (ENDPOINT_CHECK_MODES as readonly string[]).includes(text);
}
