// Asks http://127.0.0.1:10256 for /healthz and /livez in turn, each on a new connection, until SIGTERM; then prints
// what came of it.
import { get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** One question. */
export interface HealthProbe {
  readonly path: string;
  /** Milliseconds since 1970, when it was asked. */
  readonly at: number;
  /** Until the answer was there whole. */
  readonly ms: number;
  /** 0: no response. */
  readonly status: number;
}

const EVERY_MS = 40;
const PATHS = ['/healthz', '/livez'] as const;

function ask(path: string): Promise<number> {
  return new Promise((resolve) => {
    const request = get({ host: '127.0.0.1', port: 10256, path, agent: false, timeout: 5_000 }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode ?? 0));
      response.on('error', () => resolve(0));
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(0));
  });
}

const probes: HealthProbe[] = [];
let stopped = false;
process.on('SIGTERM', () => {
  stopped = true;
});
for (let count = 0; !stopped; count++) {
  const path = PATHS[count % PATHS.length] ?? '/healthz';
  const at = Date.now();
  const start = performance.now();
  const status = await ask(path);
  probes.push({ path, at, ms: Math.round(performance.now() - start), status });
  await sleep(EVERY_MS);
}
process.stdout.write(`${JSON.stringify(probes)}\n`);
