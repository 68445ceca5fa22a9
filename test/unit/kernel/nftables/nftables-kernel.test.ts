import { constants } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import { NetlinkError } from '../../../../src/netlink/error.ts';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import { nftablesKernelOf } from '../../../../src/kernel/nftables/nftables-kernel.ts';
import { chooseChain } from '../../../../src/kernel/nftables/objects/service-objects.ts';
import { affinityMap, affinitySet } from '../../../../src/kernel/nftables/objects/sets.ts';
import { NFT_VERDICT } from '../../../../src/netlink/family/nf-tables/data.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import { plannedSet } from '../../../../src/state/set-roles.ts';
import { parseCidr } from '../../../../src/base/cidr.ts';
import { type AddressTraits, addressTraits } from '../../../../src/state/address-traits.ts';
import type { Op } from '../../../../src/state/op.ts';
import { Transaction } from '../../../../src/state/transaction.ts';
import type { VirtualServer } from '../../../../src/state/virtual-server.ts';
import { nftablesContract, type NftablesBed } from '../../../contract/nftables-contract.ts';
import { address, endpoint, port, realServer, virtualServer } from '../../../contract/objects.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { nftablesPlane } from '../../../fake-kernel/planes.ts';
import { MODE_PLANS } from '../../../../src/plan/mode-plans.ts';
import { PLAN_CONFIG, TestLog } from '../../../support/reconciling.ts';

function bedOf(table: FakeNftTable): NftablesBed {
  const { kernel, another } = nftablesPlane(table);
  return {
    kernel,
    reader: () => Promise.resolve(another()),
    flushChain: (family, chain) => {
      table.changeByOthers((found) => (found!.chains.get(chain)!.rules.length = 0), family);
      return Promise.resolve();
    },
    deleteElements: (family, map) => {
      table.changeByOthers((found) => found!.sets.get(map)!.elements.clear(), family);
      return Promise.resolve();
    },
    deleteTables: () => {
      table.tables.clear();
      return Promise.resolve();
    },
    [Symbol.asyncDispose]: () => kernel.close(),
  };
}

nftablesContract(() => Promise.resolve(bedOf(new FakeNftTable())));

const CONFIG = { ...PLAN_CONFIG, ...MODE_PLANS.nftables };

function server(n: number): Op[] {
  const id = virtualServer(address(4, n), 80, 'TCP', { scheduler: 'random', traits: addressTraits('cluster', true) });
  return [
    { kind: 'add-virtual-server', virtualServer: id },
    { kind: 'add-real-server', id, realServer: realServer(endpoint(4, n), 80) },
  ];
}

async function prepared() {
  const table = new FakeNftTable();
  const { kernel } = bedOf(table);
  await kernel.prepare();
  for (const family of [4, 6] as const) await kernel.ensureRules(planRules(CONFIG, family));
  return { table, kernel };
}

describe('transactions', () => {
  test('what the kernel refuses does not stop the others, and is named', async () => {
    const { table, kernel } = await prepared();
    // The third of five virtual servers cannot be written.
    const third = server(3)[0]!;
    const key = (third as { virtualServer: { address: number } }).virtualServer.address;
    const hex = key.toString(16).padStart(8, '0');
    table.refuse = (messages) =>
      messages.some(
        (message) =>
          'elements' in message &&
          [...message.elements].some((each) => Buffer.from(each.key).toString('hex').startsWith(hex)),
      )
        ? 'ENOSPC'
        : undefined;
    const { failures } = await kernel.apply(new Transaction([1, 2, 3, 4, 5].flatMap(server)));
    expect(failures.map(({ op, code }) => `${op.kind} ${code}`)).toEqual([
      'add-virtual-server ENOSPC',
      'add-real-server ENOSPC',
    ]);
    expect(await kernel.getVirtualServers()).toHaveLength(4);
  });

  test('without the right, nothing is tried twice', async () => {
    const { table, kernel } = await prepared();
    let tries = 0;
    table.refuse = () => {
      tries += 1;
      return 'EPERM';
    };
    const { failures, stopped } = await kernel.apply(new Transaction([1, 2, 3].flatMap(server)));
    expect(failures).toHaveLength(6);
    expect(stopped).toBe('cannot write table ip kube-proxy: EPERM');
    expect(tries).toBe(1);
  });

  test.each([1, 5])('a table that another program deletes meanwhile is written once, and stops %i', async (size) => {
    const { table, kernel } = await prepared();
    const commit = table.commit.bind(table);
    let tries = 0;
    table.commit = async (...transaction) => {
      tries += 1;
      table.changeByOthers(() => table.tables.delete(4));
      return await commit(transaction[0], transaction[1]);
    };
    const servers = Array.from({ length: size }, (_, n) => server(n + 1)).flat();
    const { failures, stopped } = await kernel.apply(new Transaction(servers));
    expect(failures.map(({ op, code }) => [op, code])).toEqual(servers.map((op) => [op, 'ENOENT']));
    expect(stopped).toBe('cannot write table ip kube-proxy: another program deleted it');
    expect(tries).toBe(1);
  });

  test('a refusal of everything stops what is left of a refused transaction, but not the other IP family', async () => {
    const { table, kernel } = await prepared();
    let tries = 0;
    table.refuse = (messages) => {
      const isOf6 = messages.some((message) => 'elements' in message && [...message.elements][0]!.key.length > 16);
      if (isOf6) return undefined;
      tries += 1;
      return tries === 1 ? 'ENOSPC' : 'EPERM';
    };
    const id = virtualServer(address(6, 1), 80, 'TCP', { scheduler: 'random' });
    const ops = [...[1, 2, 3].flatMap(server), { kind: 'add-virtual-server' as const, virtualServer: id }];
    const { failures, stopped } = await kernel.apply(new Transaction(ops));
    expect(failures.map(({ code }) => code)).toEqual(Array.from({ length: 6 }, () => 'EPERM'));
    expect(stopped).toContain('EPERM');
    expect(tries).toBe(2);
    expect(await kernel.getVirtualServers()).toHaveLength(1);
  });

  test('if it takes several, what endpoints need comes before virtual servers, and cluster IPs after them', async () => {
    const { table, kernel } = await prepared();
    let isFirst = true;
    table.refuse = () => {
      const code = isFirst ? 'ENOSPC' : undefined;
      isFirst = false;
      return code;
    };
    const before = table.committed.length;
    const at = address(4, 1);
    const hairpin = { address: endpoint(4, 1), address2: endpoint(4, 1), port: port(80), protocol: 'TCP' } as const;
    const ops: Op[] = [
      { kind: 'add-entry', set: plannedSet('IPVS-IPS', 4, 0), entry: { type: 'hash:ip', address: at } },
      { kind: 'add-entry', set: plannedSet('LOOP-BACK', 4, 0), entry: { type: 'hash:ip,port,ip', ...hairpin } },
      ...server(1),
      ...server(2),
    ];
    expect((await kernel.apply(new Transaction(ops))).failures).toEqual([]);
    const written = table.committed.slice(before);
    const transactionOf = (set: string): number =>
      written.findIndex((messages) =>
        messages.some((message) => message.kind === 'new-elements' && message.set === set),
      );
    expect(['hairpin-endpoints', 'service-ips', 'cluster-ips'].map(transactionOf)).toEqual([0, 0, 1]);
  });

  test('another program that writes meanwhile makes it read and write again', async () => {
    const { table, kernel } = await prepared();
    const read = table.lookUp.bind(table);
    let disturbed = 0;
    table.lookUp = async (...wanted) => {
      const findings = await read(...wanted);
      if (++disturbed <= 2) table.changeByOthers(() => undefined);
      return findings;
    };
    expect((await kernel.apply(new Transaction(server(1)))).failures).toEqual([]);
    expect(disturbed).toBeGreaterThan(2);
    expect(await kernel.getVirtualServers()).toHaveLength(1);
  });

  test('even if it never ceases', async () => {
    const { table, kernel } = await prepared();
    const read = table.lookUp.bind(table);
    table.lookUp = async (...wanted) => {
      const findings = await read(...wanted);
      table.changeByOthers(() => undefined);
      return findings;
    };
    expect((await kernel.apply(new Transaction(server(1)))).failures).toEqual([]);
  });
});

describe('source ranges', () => {
  function traits(...ranges: readonly string[]): AddressTraits {
    return addressTraits('loadBalancer', false, { ranges: ranges.map((text) => parseCidr(text)!), itself: false });
  }

  /** A virtual server that clients of these networks may use. */
  function restricted(n: number, ...ranges: readonly string[]): Op[] {
    const [add, ...more] = server(n) as [Extract<Op, { kind: 'add-virtual-server' }>, ...Op[]];
    const virtualServer = { ...add.virtualServer, traits: traits(...(ranges.length === 0 ? ['10.0.0.0/8'] : ranges)) };
    return [{ kind: add.kind, virtualServer }, ...more];
  }

  function edited(n: number, ...ranges: readonly string[]): Op {
    return { ...restricted(n, ...ranges)[0], kind: 'edit-virtual-server' } as Op;
  }

  function deleted(n: number): Op {
    return { kind: 'delete-virtual-server', id: virtualServer(address(4, n), 80) };
  }

  test('stay in force if the kernel refuses to delete their virtual server', async () => {
    const { table, kernel } = await prepared();
    await kernel.apply(new Transaction([1, 2].flatMap((n) => restricted(n))));
    const first = Buffer.from([10, 96, 0, 1]).toString('hex');
    table.refuse = (messages) =>
      messages.some(
        (message) =>
          message.kind === 'delete-elements' &&
          message.set === 'service-ips' &&
          [...message.elements].some(({ key }) => Buffer.from(key).toString('hex').startsWith(first)),
      )
        ? 'ENOMEM'
        : undefined;
    const { failures } = await kernel.apply(new Transaction([1, 2].map(deleted)));
    expect(failures).toHaveLength(1);
    for (const map of ['service-ips', 'firewall-ips', 'load-balancer-ports']) {
      expect([...table.tables.get(4)!.sets.get(map)!.elements.keys()]).toEqual([expect.stringMatching(`^${first}`)]);
    }
  });

  test('are not read for a change of endpoints, nor for one to other ranges', async () => {
    const { table, kernel } = await prepared();
    await kernel.apply(new Transaction([1, 2].flatMap((n) => restricted(n))));
    let dumps = 0;
    const read = table.eachElement.bind(table);
    table.eachElement = (...wanted) => {
      dumps += 1;
      return read(...wanted);
    };
    const more: Op = {
      kind: 'add-real-server',
      id: virtualServer(address(4, 1), 80),
      realServer: realServer(endpoint(4, 9), 80),
    };
    expect(await kernel.apply(new Transaction([more]))).toEqual({ failures: [] });
    // Another network needs another chain.
    expect(await kernel.apply(new Transaction([edited(1, '10.0.0.0/8', '192.0.2.0/24')]))).toEqual({ failures: [] });
    expect(dumps).toBe(0);
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: false, chains: [] });
  });

  test('are one chain and one set for all ports that have them', async () => {
    const { table, kernel } = await prepared();
    const names = (): readonly string[] =>
      [...table.tables.get(4)!.chains.keys(), ...table.tables.get(4)!.sets.keys()].filter((name) =>
        /^(firewall-.*|sources-.*)\/sources$/.test(name),
      );
    await kernel.apply(new Transaction([1, 2, 3].flatMap((n) => restricted(n))));
    expect(names()).toHaveLength(2);
    // With another range, a port leads to another chain; the set does not change while packets are looked up in it.
    await kernel.apply(new Transaction([edited(1, '10.0.0.0/8', '192.0.2.0/24')]));
    expect(names()).toHaveLength(4);
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: false, chains: [] });
    expect(names()).toHaveLength(4);
    await kernel.apply(new Transaction([edited(1)]));
    await kernel.apply(new Transaction(server(9)));
    expect(names()).toHaveLength(2);
  });

  test('that another program changes are restored', async () => {
    const { table, kernel } = await prepared();
    const ranges = ['10.0.0.0/8', '192.0.2.0/24'];
    await kernel.apply(new Transaction(restricted(1, ...ranges)));
    const [name] = [...table.tables.get(4)!.sets.keys()].filter((each) => each.startsWith('sources-'));
    const elements = (): readonly string[] => [...table.tables.get(4)!.sets.get(name!)!.elements.keys()].toSorted();
    const before = elements();
    expect(before).toEqual(['00000000 end', '0a000000', '0b000000 end', 'c0000200', 'c0000300 end']);
    table.changeByOthers((found) => found!.sets.get(name!)!.elements.delete('0b000000 end'));
    // A virtual server with other ranges than those of its chain is like no other.
    const [found] = await kernel.getVirtualServers();
    expect(found).not.toHaveProperty('traits');
    expect(await kernel.apply(new Transaction([edited(1, ...ranges)]))).toEqual({ failures: [] });
    expect(elements()).toEqual(before);
    expect(await kernel.getVirtualServers()).toMatchObject([{ traits: traits(...ranges) }]);
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: false, chains: [] });
  });

  test('that are written during each check of the rules are not deleted by it', async () => {
    const { table, kernel } = await prepared();
    table.changeByOthers((found) => (found!.chains.get('services')!.rules.length = 0));
    const changes: Promise<unknown>[] = [];
    const read = table.eachElement.bind(table);
    table.eachElement = async (family, set, visit) => {
      if (set === 'firewall-ips') {
        changes.push(kernel.apply(new Transaction(restricted(1 + changes.length))));
        // As long as a change takes, unless it waits.
        for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
      }
      await read(family, set, visit);
    };
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: true, chains: ['services'] });
    table.eachElement = read;
    expect(changes.length).toBeGreaterThan(2);
    expect(await Promise.all(changes)).toEqual(changes.map(() => ({ failures: [] })));
    for (const map of ['service-ips', 'firewall-ips']) {
      expect(table.tables.get(4)!.sets.get(map)!.elements.size).toBe(changes.length);
    }
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: false, chains: [] });
  });
});

describe('a kernel that lacks something', () => {
  test('without nf_tables, one sentence names the module and the other mode', async () => {
    const table = new FakeNftTable();
    table.hasTable = () =>
      Promise.reject(
        new NetlinkError({ kind: 'kernel', operation: 'NFT_MSG_GETTABLE', errno: constants.errno.EINVAL }),
      );
    await expect(bedOf(table).kernel.probeRules(6)).rejects.toThrow(
      'this kernel has no nf_tables for ip6: load the module nf_tables, or use --proxy-mode=ipvs',
    );
  });

  test('without a feature that the tables need, the error names the table and the other mode', async () => {
    const table = new FakeNftTable();
    table.refuse = () => 'EOPNOTSUPP';
    await expect(bedOf(table).kernel.prepare()).rejects.toThrow(
      'cannot create table ip kube-proxy: EOPNOTSUPP: this kernel has no nf_tables, or is older than 5.13; ipvs and iptables mode would work',
    );
  });
});

test('a table that cannot be created does not keep that of the other IP family from being created', async () => {
  const table = new FakeNftTable();
  const { kernel } = bedOf(table);
  const commit = table.commit.bind(table);
  table.commit = async (family, messages, generation) =>
    family === 4 ? { errno: 12, code: 'ENOMEM', text: '' } : await commit(family, messages, generation);
  await expect(kernel.ensureDevice()).rejects.toThrow('cannot create table ip kube-proxy: ENOMEM');
  expect([...table.tables.keys()]).toEqual([6]);
});

describe('the table of another program', () => {
  test('is replaced by one transaction, with everything that was to be written', async () => {
    const table = new FakeNftTable();
    await table.commit(4, [{ kind: 'new-table' }, { kind: 'new-chain', chain: { name: 'service-ABC' } }]);
    const { kernel } = bedOf(table);
    await kernel.prepare();
    expect(await kernel.addRules(planRules(CONFIG, 4))).toBe(false);
    expect((await kernel.apply(new Transaction([1, 2].flatMap(server)))).failures).toEqual([]);
    // It is untouched, and what is to be written is not yet read.
    expect([...table.tables.get(4)!.chains.keys()]).toEqual(['service-ABC']);
    expect(await kernel.getVirtualServers()).toEqual([]);
    const before = table.committed.length;
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toMatchObject({ changed: true });
    expect(table.committed.slice(before)).toHaveLength(1);
    expect(table.committed.at(-1)?.[0]).toEqual({ kind: 'delete-table' });
    expect(await kernel.getVirtualServers()).toHaveLength(2);
    expect(table.tables.get(4)!.chains.has('service-ABC')).toBe(false);
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: false, chains: [] });
  });

  test('is replaced with what the last attempt was to write, not with what was written in vain before', async () => {
    const table = new FakeNftTable();
    await table.commit(4, [{ kind: 'new-table' }, { kind: 'new-chain', chain: { name: 'service-ABC' } }]);
    const { kernel } = bedOf(table);
    await kernel.prepare();
    await kernel.apply(new Transaction([1, 2].flatMap(server)));
    table.refuse = () => 'ENOMEM';
    await expect(kernel.ensureRules(planRules(CONFIG, 4))).rejects.toThrow('ENOMEM');
    // The second virtual server is gone by now.
    table.refuse = () => undefined;
    await kernel.ensureDevice();
    await kernel.apply(new Transaction(server(1)));
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toMatchObject({ changed: true });
    expect((await kernel.getVirtualServers()).map(({ address: at }) => at)).toEqual([address(4, 1)]);
  });
});

describe('chains that several virtual servers share', () => {
  const shared = (table: FakeNftTable): string[] =>
    [...table.tables.get(4)!.chains.keys()].filter((name) => name.startsWith('choose-')).sort();
  const id = virtualServer(address(4, 1), 80, 'TCP', { scheduler: 'random' });
  const add = (n: number): Op => ({ kind: 'add-real-server', id, realServer: realServer(endpoint(4, n), 80) });

  async function grown() {
    const table = new FakeNftTable();
    const { kernel } = bedOf(table);
    await kernel.prepare();
    await kernel.ensureRules(planRules(CONFIG, 4));
    await kernel.apply(new Transaction([...server(1), ...server(2)]));
    await kernel.apply(new Transaction([add(2)]));
    await kernel.apply(new Transaction([add(3)]));
    expect(shared(table)).toEqual(['choose-1', 'choose-2', 'choose-3']);
    return { table, kernel };
  }

  test('are deleted by the next check of the rules when none uses them any more', async () => {
    const { table, kernel } = await grown();
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: false, chains: [] });
    expect(shared(table)).toEqual(['choose-1', 'choose-3']);
    const before = table.committed.length;
    await kernel.ensureRules(planRules(CONFIG, 4));
    expect(table.committed).toHaveLength(before);
    // A number of endpoints that occurs again has its chain again, and the other one is still right.
    const gone: Op = { kind: 'delete-real-server', id, realServer: realServer(endpoint(4, 3), 80) };
    expect((await kernel.apply(new Transaction([gone]))).failures).toEqual([]);
    expect(shared(table)).toEqual(['choose-1', 'choose-2', 'choose-3']);
    expect(await kernel.compareRules(planRules(CONFIG, 4))).toMatchObject({ missing: [] });
  });

  test('one to which another program leads does not keep chains and sets of session affinity', async () => {
    const { table, kernel } = await grown();
    const clients = affinitySet('clients-of-nobody', 60, 4);
    table.changeByOthers((found) => {
      found!.sets.set(clients.name, { set: clients, elements: new Map() });
      found!.chains.set('choose-9', {
        chain: { name: 'choose-9', policy: undefined },
        rules: [...chooseChain(9, 4).rules],
      });
      const theirs = { ...affinityMap('theirs'), keyLength: 1 };
      const data = { verdict: { code: NFT_VERDICT.goto, chain: 'choose-9' } };
      found!.sets.set('theirs', { set: theirs, elements: new Map([['00', { key: Uint8Array.of(0), data }]]) });
    });
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: false, chains: [] });
    expect(shared(table)).toContain('choose-9');
    expect(table.tables.get(4)!.sets.has(clients.name)).toBe(false);
    // Nothing is written again for it.
    await kernel.ensureRules(planRules(CONFIG, 4));
    const before = table.committed.length;
    await kernel.ensureRules(planRules(CONFIG, 4));
    expect(table.committed).toHaveLength(before);
  });

  test('and the sets of clients of endpoints that are gone', async () => {
    const { table, kernel } = await grown();
    const clients = affinitySet('clients-of-nobody', 60, 4);
    table.changeByOthers((found) => found!.sets.set(clients.name, { set: clients, elements: new Map() }));
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toMatchObject({ changed: false });
    expect(table.tables.get(4)!.sets.has(clients.name)).toBe(false);
  });

  test('are left alone if the ruleset has changed since they were looked at', async () => {
    const { table, kernel } = await grown();
    const read = table.chains.bind(table);
    table.chains = async (family) => {
      const chains = await read(family);
      table.chains = read;
      await kernel.apply(
        new Transaction([{ kind: 'delete-real-server', id, realServer: realServer(endpoint(4, 3), 80) }]),
      );
      return chains;
    };
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: false, chains: [] });
    expect(shared(table)).toContain('choose-2');
    expect((await kernel.findVirtualServers([id])).size).toBe(1);
  });
});

describe('what is read', () => {
  const serverAt = (n: number): VirtualServer => (server(n)[0] as { virtualServer: VirtualServer }).virtualServer;
  const id = serverAt(1);
  const op = (kind: 'add-real-server' | 'delete-real-server', n: number): Op & { readonly id: typeof id } => ({
    kind,
    id,
    realServer: realServer(endpoint(4, n), 80),
  });

  async function counted() {
    const table = new FakeNftTable();
    const { kernel } = bedOf(table);
    await kernel.prepare();
    await kernel.apply(new Transaction([1, 2, 3].flatMap(server)));
    const counts = { lookUps: 0, dumps: 0 };
    const lookUp = table.lookUp.bind(table);
    table.lookUp = (...wanted) => {
      counts.lookUps += 1;
      return lookUp(...wanted);
    };
    const eachElement = table.eachElement.bind(table);
    table.eachElement = (...wanted) => {
      counts.dumps += 1;
      return eachElement(...wanted);
    };
    const endpoints = (): number => table.tables.get(4)!.sets.get('service-endpoints')!.elements.size;
    return { table, kernel, counts, endpoints };
  }

  test('a change reads a virtual server and its endpoints once, in two exchanges', async () => {
    const { table, kernel, counts, endpoints } = await counted();
    const change = async (changed: Op & { readonly id: typeof id }): Promise<void> => {
      await kernel.findVirtualServers([changed.id]);
      await kernel.getRealServers([changed.id]);
      expect(await kernel.apply(new Transaction([changed]))).toEqual({ failures: [] });
    };
    await change(op('add-real-server', 9));
    counts.lookUps = 0;
    await change({ ...op('add-real-server', 9), id: serverAt(2) });
    expect(counts).toEqual({ lookUps: 2, dumps: 0 });
    expect(endpoints()).toBe(5);
    // What is known of chains is worth nothing when another program has written.
    table.changeByOthers(() => undefined);
    await change({ ...op('add-real-server', 9), id: serverAt(3) });
    expect(counts).toEqual({ lookUps: 5, dumps: 0 });
    expect(endpoints()).toBe(6);
  });

  test('if another program writes between reading and writing, it is read again', async () => {
    const { table, kernel, endpoints } = await counted();
    await kernel.findVirtualServers([id]);
    await kernel.getRealServers([id]);
    table.changeByOthers((found) => found!.sets.get('service-endpoints')!.elements.clear());
    expect(await kernel.apply(new Transaction([op('add-real-server', 1)]))).toEqual({ failures: [] });
    expect(endpoints()).toBe(1);
    const [servers] = (await kernel.getRealServers([id])).values();
    expect(servers).toHaveLength(1);
  });

  test('the rules are read again only after a change, of whatever, or with other settings', async () => {
    const { table, kernel } = await counted();
    await kernel.ensureRules(planRules(CONFIG, 4));
    await kernel.ensureRules(planRules(CONFIG, 4));
    const read = table.rules.bind(table);
    let reads = 0;
    table.rules = (family) => {
      reads += 1;
      return read(family);
    };
    const readsOf = async (config: typeof CONFIG): Promise<number> => {
      reads = 0;
      await kernel.ensureRules(planRules(config, 4));
      return reads;
    };
    expect(await readsOf(CONFIG)).toBe(0);
    table.changeByOthers(() => undefined, 6);
    expect(await readsOf(CONFIG)).toBe(1);
    expect(await readsOf(CONFIG)).toBe(0);
    await kernel.apply(new Transaction([op('add-real-server', 2)]));
    expect(await readsOf(CONFIG)).toBeGreaterThan(0);
    await kernel.ensureRules(planRules(CONFIG, 4));
    expect(await readsOf(CONFIG)).toBe(0);
    expect(await readsOf({ ...CONFIG, masqueradeAll: true })).toBe(1);
  });

  test('a check of all virtual servers reads all endpoints once', async () => {
    const { table, kernel, counts } = await counted();
    const all = await kernel.getVirtualServers();
    expect(all).toHaveLength(3);
    counts.dumps = 0;
    const found = new Map([...(await kernel.getRealServers(all.slice(0, 2))), ...(await kernel.getRealServers(all))]);
    expect([...found.values()].map(({ length }) => length)).toEqual([1, 1, 1]);
    // Those of each service port, the shared lists, and their endpoints.
    expect(counts.dumps).toBe(3);
    // Not those that were listed before another program wrote.
    const again = await kernel.getVirtualServers();
    table.changeByOthers((others) => others!.sets.get('service-endpoints')!.elements.clear());
    const damaged = await kernel.getRealServers(again);
    expect([...damaged.values()].map(({ length }) => length)).toEqual([0, 0, 0]);
  });

  test('of damaged virtual servers, everything is read once for all of them', async () => {
    const { table, kernel, counts, endpoints } = await counted();
    table.changeByOthers((found) => found!.sets.get('service-endpoints')!.elements.clear());
    const again = [1, 2, 3].flatMap((n) => server(n).slice(1));
    expect(await kernel.apply(new Transaction(again))).toEqual({ failures: [] });
    expect(endpoints()).toBe(3);
    // The virtual servers with and without endpoints, the lists, and both kinds of endpoints.
    expect(counts.dumps).toBe(5);
  });
});

test('a table that a check of the rules finds missing is reported at once', async () => {
  const table = new FakeNftTable();
  const kernel = nftablesKernelOf(new NodeKernel({ log: new TestLog(), netns: '/nonexistent' }), table);
  const lost: string[] = [];
  const stop = kernel.watchNode(
    () => undefined,
    (reason) => lost.push(reason),
  );
  try {
    await kernel.prepare();
    const rules = planRules(CONFIG, 4);
    await kernel.ensureRules(rules);
    expect(lost).toEqual([]);
    table.changeByOthers(() => undefined);
    table.tables.delete(4);
    await kernel.ensureRules(rules);
    expect(lost).toEqual(['table ip kube-proxy was deleted']);
    expect(table.tables.has(4)).toBe(true);
  } finally {
    stop();
    await kernel.close();
  }
});
