import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { EventFeed } from '../../src/daemon/run/event-feed.ts';
import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import { Cluster } from '../../src/model/cluster.ts';
import { formatIp } from '../../src/base/ip.ts';
import { SYSTEM_CLOCK } from '../../src/reconcile/timing/clock.ts';
import { Reconciler } from '../../src/reconcile/reconciler.ts';
import { formatOp } from '../../src/state/op.ts';
import { formatVirtualServer } from '../../src/state/virtual-server.ts';
import type { ApiServerOptions } from '../apiserver/api-server.ts';
import type { FaultRule } from '../apiserver/faults.ts';
import { PLAN_CONFIG } from '../support/reconciling.ts';
import { address, real, virtualServer, vsId } from '../support/state.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { Bed, node, service, slice } from './harness.ts';
import type { SyncReport } from '../../src/state/sync-report.ts';

jest.setTimeout(30_000);

const FIRST = { namespace: 'default', name: 'kubernetes' };
/** These are in namespace "apps", which sorts before "default", so that `FIRST` is not on the first page. */
const OTHERS = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
const ALL = [...OTHERS, 'kubernetes'].join(' ');

let bed: Bed;

async function serverWith(options: ApiServerOptions): Promise<void> {
  bed = new Bed(options);
  await bed.server.start();
  bed.server.apply(node('node-1'));
  for (const [i, name] of OTHERS.entries()) {
    bed.server.apply(service(name, `10.96.1.${i}`, { namespace: 'apps' }));
    bed.server.apply({
      ...slice(name, [`10.244.0.${i}`]),
      metadata: { ...slice(name, []).metadata, namespace: 'apps' },
    });
  }
  bed.server.apply(service('kubernetes', '10.96.0.1'));
  bed.server.apply(slice('kubernetes', ['192.0.2.8']));
  bed.server.apply(slice('kubernetes-2', ['192.0.2.9'], { 'kubernetes.io/service-name': 'kubernetes' }));
}

/** The server does not respond to lists of all objects: pages after the first, or streams (WatchList). */
function holdLists(): void {
  for (const resource of ['services', 'endpointslices']) {
    const held = bed.server.options.watchList === false ? { verb: 'list', continued: true } : { verb: 'watch' };
    bed.server.faults.add({ ...held, resource, fault: { type: 'stall' } } as FaultRule);
  }
}

/** Breaks off the held lists, so that the client requests them again. */
function releaseLists(): void {
  bed.server.faults.clear();
  bed.server.dropConnections();
}

const lookUps = (): readonly string[] =>
  bed.server.requests
    .filter(({ path }) => path.includes('/namespaces/'))
    .map(({ verb, path, query }) => `${verb} ${path} ${query['fieldSelector'] ?? ''}${query['labelSelector'] ?? ''}`);

afterEach(() => bed.stop());

describe('the Service that is fetched first', () => {
  test.each([
    ['a server that streams its state', {}],
    ['a server that only lists', { watchList: false }],
  ])(
    '%s: default/kubernetes arrives while the lists are delayed, with no additional permissions',
    async (_name, options) => {
      await serverWith(options);
      holdLists();
      bed.follow({}, {}, { first: FIRST });
      await eventually(() => expect(bed.view.types('endpoint-slice')).toEqual(['applied', 'applied']));
      expect(bed.view.types('service')).toEqual(['applied']);
      expect(lookUps().toSorted()).toEqual([
        'list /api/v1/namespaces/default/services metadata.name=kubernetes' +
          '!service.kubernetes.io/service-proxy-name',
        'list /apis/discovery.k8s.io/v1/namespaces/default/endpointslices ' +
          'kubernetes.io/service-name=kubernetes,!service.kubernetes.io/headless',
      ]);
      releaseLists();
      await eventually(() => expect(bed.view.names('service')).toBe(ALL));
      expect(bed.view.types('service')).toEqual(['applied', 'replaced']);
    },
  );

  const wholeLists = (): readonly string[] =>
    bed.server.requests.map(({ path }) => path).filter((path) => /\/v1\/(services|endpointslices)$/.test(path));

  test('default/kubernetes is programmed before the lists begin', async () => {
    await serverWith({});
    const { promise: programmed, resolve } = Promise.withResolvers<void>();
    bed.follow({}, {}, { first: FIRST, programmed });
    await eventually(() => expect(bed.view.types('service')).toEqual(['applied']));
    await eventually(() => expect(bed.view.names('node')).toBe('node-1'));
    await sleep(400);
    expect(wholeLists()).toEqual([]);
    resolve();
    await eventually(() => expect(bed.view.names('service')).toBe(ALL));
  });

  test.each([
    ['there is none', (): void => bed.server.delete(service('kubernetes', ''))],
    [
      'it may not be looked up',
      (): void => bed.server.faults.add({ verb: 'list', times: 2, fault: { type: 'status', code: 403 } }),
    ],
    [
      'the look gets no answer',
      (): void => bed.server.faults.add({ verb: 'list', times: 2, fault: { type: 'stall' } }),
    ],
  ])('the look-ahead delays nothing if %s', async (_name, prepare) => {
    await serverWith({});
    prepare();
    bed.follow({}, {}, { first: FIRST, programmed: new Promise(() => undefined) });
    await eventually(() => expect(bed.view.names('service')).toContain(OTHERS.join(' ')));
  });

  test('default/kubernetes is ignored if it arrives after the lists', async () => {
    await serverWith({});
    bed.server.faults.add({ verb: 'list', times: 2, fault: { type: 'slow', bytes: 15, pauseMs: 60 } });
    // The responses are slow, but must not time out.
    bed.follow({ listIdleMs: 10_000 }, {}, { first: FIRST });
    await eventually(() => expect(bed.view.names('service')).toBe(ALL));
    await eventually(() => expect(lookUps()).toHaveLength(2));
    await sleep(1_500);
    expect(bed.view.types('service')).toEqual(['replaced']);
    expect(bed.view.types('endpoint-slice')).toEqual(['replaced']);
  });

  test.each([
    ['is forbidden', { type: 'status', code: 403 }, 2],
    ['is garbled', { type: 'garbage', line: '{' }, 2],
    ['gets no answer', { type: 'drop' }, 4],
    ['gets a 503', { type: 'status', code: 503 }, 4],
  ] as const)('a request that %s is logged at debug level only', async (_name, fault, requests) => {
    await serverWith({});
    holdLists();
    // This fault affects only the look-ahead, because all other requests to a streaming server are watches.
    bed.server.faults.add({ verb: 'list', times: 2, fault });
    bed.follow({}, {}, { first: FIRST });
    const found = requests > 2 ? ['applied'] : [];
    await eventually(() => expect(lookUps()).toHaveLength(requests));
    await eventually(() => expect(bed.view.types('service')).toEqual(found));
    await sleep(50);
    expect(lookUps()).toHaveLength(requests);
    expect(bed.log.lines.map(({ level }) => level)).toEqual(['debug']);
    expect(bed.log.messages('debug')).toEqual([
      expect.stringMatching(/^default\/kubernetes not fetched before the lists: ./),
    ]);
    releaseLists();
    await eventually(() => expect(bed.view.names('service')).toBe(ALL));
  });
});

describe('from the server to the kernel', () => {
  test.each([
    ['a server that streams its state', {}],
    ['a server that only lists', { watchList: false }],
  ])(
    '%s: default/kubernetes is programmed before the lists arrive, and nothing else is changed',
    async (_name, options) => {
      await serverWith(options);
      holdLists();
      const kernel = new FakeKernel();
      await kernel.prepare();
      // This state belongs to a Service that was deleted while the daemon was down. Only a full sync may remove it.
      kernel.put({ kind: 'add-virtual-server', virtualServer: virtualServer('10.96.9.9', 80) });
      kernel.put({ kind: 'add-real-server', id: vsId('10.96.9.9', 80), realServer: real('10.244.9.9', 1) });
      kernel.put({ kind: 'bind-address', address: address('10.96.9.9') });
      const reports: SyncReport[] = [];
      const cluster = new Cluster('node-1');
      const reconciler = new Reconciler({
        kernel,
        cluster,
        plan: PLAN_CONFIG,
        nodeIpOverride: undefined,
        excludeCidrs: [],
        syncPeriodMs: 30_000,
        minSyncPeriodMs: 0,
        drainTimeoutMs: 0,
        clock: SYSTEM_CLOCK,
        log: bed.log,
        observer: { queued: () => undefined, finished: (report) => reports.push(report) },
      });
      const feed = new EventFeed(cluster, () => reconciler.clusterChanged());
      bed.follow({}, {}, { first: FIRST, also: (event) => feed.take(event) });
      const virtualServers = async (): Promise<string> => {
        const servers = await kernel.getVirtualServers();
        return servers.map(formatVirtualServer).toSorted().join(' ');
      };
      try {
        await eventually(() => expect(kernel.applied.map(formatOp)).toContain('bind-address 10.96.0.1'));
        expect(await virtualServers()).toBe('TCP 10.96.0.1:80 TCP 10.96.9.9:80');
        const realServers = await kernel.getRealServers([vsId('10.96.0.1', 80)]);
        // Real servers are added in an order that differs between nodes.
        const addresses = [...realServers.values()].flat().map((server) => formatIp(server.address));
        expect(addresses.toSorted()).toEqual(['192.0.2.8', '192.0.2.9']);
        const kinds = new Set(kernel.applied.map(({ kind }) => kind));
        expect(kinds).toEqual(
          new Set(['create-set', 'add-entry', 'add-virtual-server', 'add-real-server', 'bind-address']),
        );
        expect(reports).toEqual([]);
        releaseLists();
        await eventually(() => expect(reports).toHaveLength(1));
        expect(reports[0]).toMatchObject({ kind: 'first', ok: true, failures: [] });
        const all = [...OTHERS.map((_, i) => `TCP 10.96.1.${i}:80`), 'TCP 10.96.0.1:80'].toSorted().join(' ');
        expect(await virtualServers()).toBe(all);
      } finally {
        await bed.source?.stop();
        await feed.stop();
        await reconciler.stop();
      }
    },
  );
});
