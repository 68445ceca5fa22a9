import { describe, expect, test } from '@jest/globals';
import type { ProxyConfig } from '../../../../src/config/proxy-config.ts';
import { waitForNode } from '../../../../src/daemon/startup/node-wait.ts';
import type { Node } from '../../../../src/kube/objects/objects.ts';
import { Cluster } from '../../../../src/model/cluster.ts';
import { FakeClock, TestLog } from '../../../support/reconciling.ts';

const NODE: Node = {
  meta: { namespace: '', name: 'node-a', resourceVersion: '1', labels: {}, annotations: {} },
  podCIDRs: ['10.244.1.0/24'],
  taintKeys: [],
  addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
};

const S = 1_000;

/** What is known of the Node, and when. */
class Waiting {
  readonly cluster = new Cluster('node-a');
  readonly clock = new FakeClock();
  readonly log = new TestLog();
  readonly #config: Pick<ProxyConfig, 'detectLocalMode' | 'manifests' | 'nodePortAddresses'>;
  /** undefined while it waits; "" when it went on. */
  ended: string | undefined;

  constructor(config: Partial<Pick<ProxyConfig, 'detectLocalMode' | 'manifests' | 'nodePortAddresses'>> = {}) {
    const nodePortAddresses = { primary: false, cidrs: [] };
    this.#config = { detectLocalMode: 'ClusterCIDR', manifests: undefined, nodePortAddresses, ...config };
  }

  start(): this {
    const { cluster, clock, log } = this;
    const signal = new AbortController().signal;
    waitForNode({ cluster, config: this.#config, nodeName: 'node-a', clock, signal, log }).then(
      () => (this.ended = ''),
      (error: unknown) => (this.ended = String(error)),
    );
    return this;
  }

  list(...nodes: readonly Node[]): this {
    this.cluster.apply({ kind: 'node', event: { type: 'replaced', objects: nodes } });
    return this;
  }

  listRest(): this {
    for (const kind of ['service', 'endpoint-slice'] as const) {
      this.cluster.apply({ kind, event: { type: 'replaced', objects: [] } });
    }
    return this;
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 500) {
      // Each look is 10 ms after the one before.
      for (let look = 0; look < 50; look++) {
        this.clock.advance(10);
        await Promise.resolve();
        await Promise.resolve();
      }
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe('waiting for our Node', () => {
  test('if our Node exists, nothing is logged', async () => {
    const run = new Waiting().list(NODE).start();
    await run.pass(0);
    expect([run.ended, run.log.lines]).toEqual(['', []]);
  });

  test('an unreachable API server is not reported as a wrong Node name', async () => {
    const run = new Waiting().start();
    await run.pass(29 * S);
    expect([run.ended, run.log.lines]).toEqual([undefined, []]);
    await run.pass(2 * S);
    expect([run.ended, run.log.lines]).toEqual([
      '',
      ['warn: our Node node-a has not been read from the API server yet: continuing without its addresses'],
    ]);
  });

  test('a Node name that does not exist is logged immediately; a Node that is created later is used', async () => {
    const run = new Waiting().list().start();
    await run.pass(S);
    const missing =
      'warn: there is no Node named node-a in the cluster; waiting 30 s for it: check --hostname-override against kubectl get nodes';
    expect([run.ended, run.log.lines]).toEqual([undefined, [missing]]);
    run.list(NODE);
    await run.pass(S);
    expect([run.ended, run.log.lines]).toEqual(['', [missing]]);
  });

  test('a Node that never appears delays the start for a limited time, and the log says so', async () => {
    const run = new Waiting().list().start();
    await run.pass(31 * S);
    expect(run.ended).toBe('');
    expect(run.log.lines.slice(1)).toEqual([
      'warn: there is no Node named node-a in the cluster: continuing without its zone and addresses, and /healthz answers 503 ' +
        'until it comes; check --hostname-override against kubectl get nodes',
    ]);
  });

  test('a Node without addresses is logged', async () => {
    const run = new Waiting().list({ ...NODE, addresses: [] }).start();
    await run.pass(31 * S);
    expect(run.log.lines).toEqual(['warn: our Node node-a reports no address yet: continuing without']);
  });

  test('with primary, it is logged that node ports are closed until the Node reports an address', async () => {
    const nodePortAddresses = { primary: true, cidrs: [] };
    const run = new Waiting({ nodePortAddresses }).list({ ...NODE, addresses: [] }).start();
    await run.pass(31 * S);
    expect(run.log.lines).toEqual([
      'warn: our Node node-a reports no address yet: continuing without; until it reports one, node ports are closed at ' +
        'its primary addresses (nodePortAddresses)',
    ]);
  });

  test('manifests without a Node of our name are logged after they were read', async () => {
    const run = new Waiting({ manifests: '/m' }).list().start();
    await run.pass(S);
    expect(run.log.lines).toEqual([]);
    run.listRest();
    await run.pass(S);
    expect([run.ended, run.log.lines]).toEqual([
      '',
      [
        'warn: there is no Node named node-a in the manifests of /m: continuing without its zone and addresses, and /healthz answers ' +
          '503 until it comes; check --hostname-override, or add the Node',
      ],
    ]);
  });

  test.each([
    ['the server cannot be reached', new Waiting({ detectLocalMode: 'NodeCIDR' }), /our Node node-a could not be read/],
    [
      'there is no such Node',
      new Waiting({ detectLocalMode: 'NodeCIDR' }).list(),
      /there is no Node named node-a: check/,
    ],
    [
      'it has none',
      new Waiting({ detectLocalMode: 'NodeCIDR' }).list({ ...NODE, podCIDRs: [] }),
      /there are none: let the controller manager allocate/,
    ],
  ])('pod CIDRs that are needed and missing, since %s', async (_why, run, sentence) => {
    run.start();
    await run.pass(331 * S);
    expect(run.ended).toMatch(sentence);
  });
});
