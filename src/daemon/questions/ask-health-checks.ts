import { once } from 'node:events';
import { type IncomingMessage, get } from 'node:http';
import { errorText } from '../../base/text/error-text.ts';
import type { HealthCheckReply, ServiceReply } from '../../explain/replies.ts';

/** Milliseconds; the listener is in this process or, of a shadow, in another one of this node. */
const MOST_MS = 1_000;

/** Adds what the health checks of the Service answer, asked as a load balancer asks them. */
export async function withHealthChecks(reply: ServiceReply): Promise<ServiceReply> {
  const { healthChecks } = reply;
  return healthChecks === undefined
    ? reply
    : { ...reply, healthChecks: await Promise.all(healthChecks.map(askHealthCheck)) };
}

async function askHealthCheck(check: HealthCheckReply): Promise<HealthCheckReply> {
  try {
    const sent = get(`http://${check.at}/`, { signal: AbortSignal.timeout(MOST_MS), agent: false });
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.destroy();
    return response.statusCode === undefined ? check : { ...check, status: response.statusCode };
  } catch (error) {
    return { ...check, why: errorText(error) };
  }
}
