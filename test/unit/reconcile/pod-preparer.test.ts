import { beforeEach, describe, expect, test } from '@jest/globals';
import { type IpAddress, formatIp } from '../../../src/base/ip.ts';
import { namespacedName } from '../../../src/base/service/names.ts';
import type { PodNamespace } from '../../../src/kernel/pod-namespaces.ts';
import type { PodInterfaces } from '../../../src/reconcile/pods/pod-interfaces.ts';
import { PodPreparer } from '../../../src/reconcile/pods/pod-preparer.ts';
import {
  type DirectPod,
  type GuePort,
  type PodDevice,
  type PodOp,
  formatPodOp,
} from '../../../src/state/pod-network.ts';
import { RecordingLog } from '../kube/recording-log.ts';
import { ip } from '../plan/build.ts';

const VIP = ip('198.51.100.1');
const NONE: ReadonlySet<string> = new Set();
const CNI = new Set(['cni0']);
const SEEN = new Set(['veth-a', 'veth-b', 'cni0']);

/** A namespace whose devices do what they are told; addresses and names only. */
class FakeNamespace implements PodNamespace {
  readonly path: string;
  interfaces: readonly string[];
  /** Addresses that the Pod has given itself. */
  more: readonly IpAddress[] = [];
  readonly ops: string[] = [];
  connected: readonly IpAddress[] = [];
  failure: string | undefined;
  readonly #pod: IpAddress;
  #prepared: readonly IpAddress[] = [];

  constructor(name: string, pod: string) {
    this.path = `/run/netns/${name}`;
    this.interfaces = [`veth-${name}`, 'cni0'];
    this.#pod = ip(pod);
  }

  async getDevices(): Promise<readonly PodDevice[]> {
    const common = { up: true, rpFilter: 2, arpAnnounce: 2 };
    const eth0 = { ...common, name: 'eth0', kind: 'veth', local: undefined, addresses: [this.#pod, ...this.more] };
    const tunnel = { ...common, name: 'kube-ipvs-tun4', kind: 'ipip', local: this.#pod, addresses: this.#prepared };
    return await Promise.resolve(this.#prepared.length === 0 ? [eth0] : [eth0, tunnel]);
  }

  async getGuePorts(): Promise<readonly GuePort[]> {
    return await Promise.resolve([]);
  }

  async getConnectedAddresses(): Promise<ReadonlySet<IpAddress>> {
    return await Promise.resolve(new Set(this.connected));
  }

  async apply(ops: readonly PodOp[]): Promise<readonly string[]> {
    if (this.failure !== undefined) return await Promise.resolve([this.failure]);
    this.ops.push(...ops.map(formatPodOp));
    for (const op of ops) {
      if (op.kind === 'add-address') this.#prepared = [...this.#prepared, op.address];
      if (op.kind === 'delete-device') this.#prepared = [];
    }
    return await Promise.resolve([]);
  }
}

let first: FakeNamespace;
let second: FakeNamespace;
let log: RecordingLog;
let warnings: string[];
let way: string;
let interfaces: { needed: ReadonlySet<string>; kept: ReadonlySet<string>; seen: ReadonlySet<string> };
let preparer: PodPreparer;

beforeEach(() => {
  [first, second] = [new FakeNamespace('a', '10.244.0.2'), new FakeNamespace('b', '10.244.0.3')];
  log = new RecordingLog();
  warnings = [];
  way = 'cni0';
  preparer = create();
});

function create(): PodPreparer {
  return new PodPreparer({
    namespaces: {
      each: async (visit, only) => {
        for (const each of [first, second]) if (only?.has(each.path) !== false) await visit(each);
      },
    },
    interfaces: {
      waysTo: async (pods: readonly IpAddress[]) => await Promise.resolve(new Map(pods.map((pod) => [pod, way]))),
      update: async (needed: ReadonlySet<string>, kept: ReadonlySet<string>, seen: ReadonlySet<string>) => {
        interfaces = { needed, kept, seen };
        await Promise.resolve();
      },
    } as unknown as PodInterfaces,
    clock: { now: () => 0 },
    log,
    onWarning: (service, { reason, message }) => warnings.push(`${service} ${reason}: ${message}`),
  });
}

function wanted(pod: string): DirectPod {
  return { service: namespacedName('default', 'web'), pod: ip(pod), address: VIP, method: 'tunnel' };
}

async function run(pods: readonly string[], full = true): Promise<void> {
  preparer.request(pods.map(wanted), full);
  await preparer.stop();
}

test('only the Pod that is asked for is changed, and only once', async () => {
  await run(['10.244.0.3']);
  const { ops } = second;
  expect(ops).toContain(`add-address ${formatIp(VIP)} on kube-ipvs-tun4`);
  const count = ops.length;
  await run(['10.244.0.3']);
  expect(ops).toHaveLength(count);
  expect(first.ops).toEqual([]);
  expect(interfaces).toEqual({ needed: CNI, kept: NONE, seen: SEEN });
  expect(warnings).toEqual([]);
});

test('of a Pod that has nothing of ours, only the devices are read', async () => {
  first.getGuePorts = async () => await Promise.reject(new Error('read'));
  await run(['10.244.0.3']);
  expect(log.messages('warn')).toEqual([]);
  expect(second.ops).not.toEqual([]);
});

test('a change that does not concern Pods reads nothing', async () => {
  await run(['10.244.0.3'], false);
  second.getDevices = async () => await Promise.reject(new Error('read'));
  await run(['10.244.0.3'], false);
  expect(warnings).toEqual([]);
  await run(['10.244.0.3'], true);
  expect(warnings).toHaveLength(1);
});

test('a Pod without a namespace, and one that cannot be changed, have a warning each, once', async () => {
  first.failure = 'add-device kube-ipvs-tun4: EOPNOTSUPP';
  for (const _ of [1, 2]) await run(['10.244.0.2', '10.244.0.9']);
  expect(warnings).toEqual([
    'default/web pod-not-prepared: Pod 10.244.0.2 is not prepared to answer clients without NAT: add-device kube-ipvs-tun4: EOPNOTSUPP',
    'default/web pod-not-prepared: Pod 10.244.0.9 is not prepared to answer clients without NAT: no network namespace has its address',
  ]);
});

test('an address with open connections is taken back after they have ended', async () => {
  await run(['10.244.0.2']);
  first.ops.length = 0;
  first.connected = [VIP];
  await run([]);
  expect(first.ops).toEqual([]);
  expect(interfaces).toEqual({ needed: NONE, kept: new Set(['veth-a', 'cni0']), seen: SEEN });
  first.connected = [];
  await run([]);
  expect(first.ops).toEqual(['delete-device kube-ipvs-tun4']);
  expect(interfaces).toEqual({ needed: NONE, kept: NONE, seen: SEEN });
});

test('the clean-up does not wait for connections, and rejects with what failed', async () => {
  await run(['10.244.0.2', '10.244.0.3']);
  first.connected = [VIP];
  second.failure = 'delete-device kube-ipvs-tun4: EPERM';
  await expect(preparer.withdrawAll()).rejects.toThrow('Pod 10.244.0.3: delete-device kube-ipvs-tun4: EPERM');
  expect(first.ops.at(-1)).toBe('delete-device kube-ipvs-tun4');
});

describe('a Pod that gives itself addresses', () => {
  const POD = ip('10.244.0.3');

  test('addresses of no planned Pod open no interface', async () => {
    second.more = [ip('192.0.2.1'), ip('10.244.0.2')];
    await run(['10.244.0.3']);
    expect(interfaces.needed).toEqual(CNI);
    expect(first.ops).toEqual([]);
  });

  test('the address of a Pod to which this node sends packets another way: nothing, with a reason', async () => {
    way = 'veth-b';
    first.more = [POD];
    await run(['10.244.0.3']);
    expect(first.ops).toEqual([]);
    expect(second.ops).not.toEqual([]);
    expect(interfaces.needed).toEqual(new Set(['veth-b']));
    way = 'eth0';
    await run(['10.244.0.3']);
    expect(interfaces.needed).toEqual(NONE);
    expect(warnings).toEqual([
      'default/web pod-not-prepared: Pod 10.244.0.3 is not prepared to answer clients without NAT: /run/netns/a has its address, but this node sends packets to it through eth0, which leads elsewhere',
    ]);
  });

  test('the address of a prepared Pod behind the same bridge: the Pod stays the one that had it first', async () => {
    await run(['10.244.0.3']);
    first.more = [POD];
    await run(['10.244.0.3']);
    expect(first.ops).toEqual([]);
    expect(second.ops).not.toContain('delete-device kube-ipvs-tun4');
    expect(warnings).toEqual([]);
  });

  test('behind the same bridge from the start: neither is changed, with a reason', async () => {
    await run(['10.244.0.3']);
    const count = second.ops.length;
    first.more = [POD];
    preparer = create();
    await run(['10.244.0.3']);
    expect(first.ops).toEqual([]);
    expect(second.ops).toHaveLength(count);
    expect(interfaces).toEqual({ needed: NONE, kept: SEEN, seen: SEEN });
    expect(warnings).toEqual([
      'default/web pod-not-prepared: Pod 10.244.0.3 is not prepared to answer clients without NAT: several network namespaces have its address: /run/netns/a, /run/netns/b',
    ]);
    first.more = [];
    await run(['10.244.0.3']);
    expect(interfaces.needed).toEqual(CNI);
  });

  test('a warning about a namespace with thousands of addresses names two', async () => {
    first.more = Array.from({ length: 3_000 }, (_, index) => ip(`10.9.${index >> 8}.${index & 255}`));
    await run(['10.244.0.2']);
    first.failure = 'delete-device kube-ipvs-tun4: EPERM';
    await run([]);
    expect(log.messages('warn')).toEqual([
      'Pod 10.244.0.2 10.9.0.0 keeps a service address that no Service asks for: delete-device kube-ipvs-tun4: EPERM',
    ]);
  });
});
