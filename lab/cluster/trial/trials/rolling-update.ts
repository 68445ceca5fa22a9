import type { TrialContext } from '../context.ts';
import { DEPLOYMENT, SERVER_SELECTOR } from '../servers.ts';
import type { Trial } from '../trial.ts';

const PRE_STOP_SECONDS = 15;
/** Clocks differ a little, and the API server's times are whole seconds. */
const TOLERANCE_MS = 2000;

/** Long connections end only with their server, after its last second of service. */
export const rollingUpdate: Trial = {
  name: 'rolling-update',
  what: `Deployment of 20 servers rolled twice; each goes on serving for ${PRE_STOP_SECONDS} s after its deletion (preStop)`,
  proxies: ['ours', 'ours-nftables', 'ours-iptables', 'kube-proxy-ipvs', 'kube-proxy-iptables'],
  limits: { failed: 0, cut: 0 },
  servers: { replicas: 20, preStopSeconds: PRE_STOP_SECONDS },
  run: (context) => rollTwice(context, PRE_STOP_SECONDS),
};

/** A server that ends at once fails what is sent to it until every node knows. */
export const abruptRollingUpdate: Trial = {
  name: 'rolling-update-abrupt',
  what: 'Deployment of 20 servers rolled twice; each ends at once when it is deleted',
  proxies: ['ours', 'ours-nftables', 'ours-iptables', 'kube-proxy-ipvs', 'kube-proxy-iptables'],
  limits: 'as kube-proxy',
  servers: { replicas: 20, preStopSeconds: 0 },
  run: (context) => rollTwice(context, 0),
};

async function rollTwice(context: TrialContext, preStopSeconds: number): Promise<void> {
  const servers = new ServerEnds(context, preStopSeconds);
  context.allow('its server ended', ({ cut, kind, served = '', at, ms }) => {
    const end = servers.endOf(served);
    return cut && kind !== 'silent' && end !== undefined && at + ms > end - TOLERANCE_MS;
  });
  for (const round of ['first', 'second']) {
    await servers.look();
    context.step(`${round} rolling update`);
    await context.own(['rollout', 'restart', DEPLOYMENT]);
    const seconds = await context.until('the Deployment is rolled out', 600, async () => {
      await servers.look();
      return isRolledOut(context);
    });
    context.say(`rolled out after ${seconds} s`);
    context.step(`${round} rolling update: the last servers end`);
    await context.until('the old servers are gone', 300, async () => {
      await servers.look();
      return (await context.pods(SERVER_SELECTOR)).every(({ deletedAt }) => deletedAt === undefined);
    });
    await context.wait(5);
  }
  await servers.look();
  context.check(`40 servers have ended (${servers.ended})`, servers.ended === 40);
}

/** Until when each server must serve. */
class ServerEnds {
  readonly #context: TrialContext;
  readonly #preStopMs: number;
  /** When each server was last seen that had not been deleted: milliseconds since 1970. */
  readonly #alive = new Map<string, number>();
  readonly #ends = new Map<string, number>();

  constructor(context: TrialContext, preStopSeconds: number) {
    this.#context = context;
    this.#preStopMs = preStopSeconds * 1000;
  }

  get ended(): number {
    return this.#ends.size;
  }

  /** The end of its service, past or to come; undefined if it has not been deleted. */
  endOf(server: string): number | undefined {
    return this.#ends.get(server);
  }

  async look(): Promise<void> {
    const now = Date.now();
    const pods = await this.#context.pods(SERVER_SELECTOR);
    for (const { name, deletedAt } of pods) {
      if (deletedAt === undefined) this.#alive.set(name, now);
      else this.#ends.set(name, deletedAt + this.#preStopMs);
    }
    // One that ends at once may be deleted and gone between two looks.
    const there = new Set(pods.map(({ name }) => name));
    for (const [name, seen] of this.#alive) {
      if (!there.has(name) && !this.#ends.has(name)) this.#ends.set(name, seen + this.#preStopMs);
    }
  }
}

async function isRolledOut(context: TrialContext): Promise<boolean> {
  const { metadata, spec, status } = JSON.parse(await context.own(['get', DEPLOYMENT, '--output=json'])) as {
    readonly metadata: { readonly generation: number };
    readonly spec: { readonly replicas: number };
    readonly status: {
      readonly observedGeneration?: number;
      readonly updatedReplicas?: number;
      readonly availableReplicas?: number;
      readonly replicas?: number;
    };
  };
  return (
    status.observedGeneration === metadata.generation &&
    status.updatedReplicas === spec.replicas &&
    status.availableReplicas === spec.replicas &&
    status.replicas === spec.replicas
  );
}
