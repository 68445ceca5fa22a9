// Runs on a node: creates Services with endpoints that exist only as API objects, replaces endpoints, and looks all the
// while when this node's kernel has them. `node main.ts FILE`, where FILE holds a ChurnOrder. One clock measures all.
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatIp, parseIp } from '../../../../src/base/ip.ts';
import { toPort } from '../../../../src/base/port.ts';
import { createIpvsKernel } from '../../../../src/kernel/ipvs/ipvs-kernel.ts';
import { type VirtualServerId, virtualServerKey } from '../../../../src/state/virtual-server.ts';
import { QuietLog } from '../../../../test/contract/quiet-log.ts';
import { Api } from './api.ts';
import type { ChurnOrder, ChurnResult } from './order.ts';

const LOOK_MS = 5;
/** What is measured must not wait for the processor because of the measurement: it looks for a tenth of the time. */
const PAUSES_PER_LOOK = 9;
const FILL_LIMIT_MS = 300_000;
const LOST_MS = 60_000;
const PORT = 80;

/** One Service with its addresses, and the write that its virtual server does not show yet. */
interface Churned {
  readonly name: string;
  readonly id: VirtualServerId;
  readonly addresses: string[];
  pending?: { readonly address: string; readonly sent: number; answered: number | undefined };
}

class Churn {
  readonly #order: ChurnOrder;
  readonly #api: Api;
  readonly #kernel = createIpvsKernel({ log: new QuietLog() });
  readonly #services: Churned[] = [];
  readonly #latencies: number[] = [];
  readonly #afterAnswer: number[] = [];
  #addresses = 0;
  #skipped = 0;
  #lost = 0;
  #longestLookMs = 0;

  constructor(order: ChurnOrder) {
    this.#order = order;
    this.#api = new Api(order.server, order);
  }

  async run(): Promise<ChurnResult> {
    const fillMs = await this.#fill();
    const { seconds, writesPerSecond } = this.#order;
    const begin = performance.now();
    const count = seconds * writesPerSecond;
    const writing = this.#write(begin, count, 1000 / writesPerSecond);
    let looked = performance.now();
    let done = false;
    void writing.then(() => (done = true));
    while (!done || this.#services.some(({ pending }) => pending !== undefined)) {
      const from = performance.now();
      await this.#look();
      const now = performance.now();
      this.#longestLookMs = Math.max(this.#longestLookMs, now - looked);
      looked = now;
      await sleep(Math.max(LOOK_MS, PAUSES_PER_LOOK * (now - from)));
    }
    await writing;
    return {
      fillMs,
      latencies: this.#latencies,
      afterAnswer: this.#afterAnswer,
      skipped: this.#skipped,
      lost: this.#lost,
      longestLookMs: Math.round(this.#longestLookMs),
    };
  }

  /** Creates all Services and waits until the kernel has their real servers. Returns how many milliseconds that took. */
  async #fill(): Promise<number> {
    const { services, endpoints, namespace } = this.#order;
    const begin = performance.now();
    for (let n = 0; n < services; n++) {
      const name = `churned-${n}`;
      const spec = { ports: [{ port: PORT }] };
      const body = { apiVersion: 'v1', kind: 'Service', metadata: { name }, spec };
      const service = (await this.#api.send('POST', `/api/v1/namespaces/${namespace}/services`, body)) as {
        readonly spec: { readonly clusterIP: string };
      };
      const address = parseIp(service.spec.clusterIP);
      const port = toPort(PORT);
      if (address === undefined || port === undefined) throw new Error(`${name} has no ClusterIP`);
      const addresses = Array.from({ length: endpoints }, () => this.#nextAddress());
      this.#services.push({ name, id: { address, port, protocol: 'TCP' }, addresses });
      await this.#api.send('POST', this.#slicePath(), slice(name, addresses));
    }
    for (;;) {
      const found = await this.#kernel.getRealServers(this.#services.map(({ id }) => id));
      const missing = this.#services.filter(({ id }) => found.get(virtualServerKey(id))?.length !== endpoints);
      const ms = performance.now() - begin;
      if (missing.length === 0) return Math.round(ms);
      if (ms > FILL_LIMIT_MS) throw new Error(`${missing.length} Services are not complete after ${ms} ms`);
      await sleep(100);
    }
  }

  /** Begins `count` writes at an even rate. */
  async #write(begin: number, count: number, periodMs: number): Promise<void> {
    const writes: Promise<void>[] = [];
    for (let n = 0; n < count; n++) {
      const wait = begin + n * periodMs - performance.now();
      if (wait > 0) await sleep(wait);
      const first = (n * 7) % this.#services.length;
      const order = [...this.#services.slice(first), ...this.#services.slice(0, first)];
      const service = order.find(({ pending }) => pending === undefined);
      if (service === undefined) this.#skipped++;
      else writes.push(this.#replaceOne(service));
    }
    await Promise.all(writes);
  }

  async #replaceOne(service: Churned): Promise<void> {
    const address = this.#nextAddress();
    service.addresses.shift();
    service.addresses.push(address);
    const pending: Churned['pending'] = { address, sent: performance.now(), answered: undefined };
    service.pending = pending;
    await this.#api.send('PUT', `${this.#slicePath()}/${service.name}`, slice(service.name, service.addresses));
    pending.answered = performance.now();
  }

  /** Looks at the virtual servers that do not show their last write yet. */
  async #look(): Promise<void> {
    const waiting = this.#services.filter(({ pending }) => pending !== undefined);
    const found = await this.#kernel.getRealServers(waiting.map(({ id }) => id));
    const now = performance.now();
    for (const service of waiting) {
      const { pending } = service;
      if (pending === undefined) continue;
      const servers = found.get(virtualServerKey(service.id)) ?? [];
      if (servers.some(({ address, weight }) => weight > 0 && formatIp(address) === pending.address)) {
        this.#latencies.push(now - pending.sent);
        if (pending.answered !== undefined) this.#afterAnswer.push(now - pending.answered);
      } else if (now - pending.sent > LOST_MS) {
        this.#lost++;
      } else {
        continue;
      }
      delete service.pending;
    }
  }

  /** Each address is used once: 10.200.0.0/13 has enough. */
  #nextAddress(): string {
    const n = this.#addresses++;
    return `10.${200 + Math.floor(n / 62_500)}.${Math.floor(n / 250) % 250}.${(n % 250) + 1}`;
  }

  #slicePath(): string {
    return `/apis/discovery.k8s.io/v1/namespaces/${this.#order.namespace}/endpointslices`;
  }
}

function slice(service: string, addresses: readonly string[]): object {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: service,
      labels: { 'kubernetes.io/service-name': service, 'endpointslice.kubernetes.io/managed-by': 'trial' },
    },
    addressType: 'IPv4',
    ports: [{ port: PORT, protocol: 'TCP' }],
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
  };
}

const order = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as ChurnOrder;
writeFileSync(order.output, JSON.stringify(await new Churn(order).run()));
process.exit();
