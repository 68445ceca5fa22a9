import { describe, expect, test } from '@jest/globals';
import type { CommandResult, CommandRunner } from '../../../../src/kernel/command-runner.ts';
import { KernelError } from '../../../../src/kernel/kernel-error.ts';
import { Leftovers, describeLeftover } from '../../../../src/kernel/leftovers/leftovers.ts';
import type { FoundTables } from '../../../../src/kernel/leftovers/proxy-tables-here.ts';
import { IPTABLES_MODE } from '../../../support/iptables-mode.ts';

const REMOVAL = `*mangle
:KUBE-PROXY-CANARY - [0:0]
-X KUBE-PROXY-CANARY
COMMIT
*filter
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SERVICES - [0:0]
-D INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-D INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-D INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-D FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-X KUBE-EXTERNAL-SERVICES
-X KUBE-NODEPORTS
-X KUBE-PROXY-CANARY
-X KUBE-SERVICES
COMMIT
*nat
:KUBE-EXT-ABCDEFGHIJKLMNOP - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-SEP-ABCDEFGHIJKLMNOP - [0:0]
:KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]
-D KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-ABCDEFGHIJKLMNOP
-D KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-X KUBE-EXT-ABCDEFGHIJKLMNOP
-X KUBE-NODEPORTS
-X KUBE-SEP-ABCDEFGHIJKLMNOP
-X KUBE-SVC-ABCDEFGHIJKLMNOP
COMMIT
`;

/** Programs by their command line; what is not there is not installed. */
class FakeRunner implements CommandRunner {
  readonly ran: { readonly line: string; readonly stdin: string | undefined }[] = [];
  /** That of the last program. */
  deadlineMs: number | undefined;
  readonly #programs: Readonly<Record<string, Partial<CommandResult>>>;

  constructor(programs: Readonly<Record<string, Partial<CommandResult>>>) {
    this.#programs = programs;
  }

  async run(
    program: string,
    args: readonly string[],
    options: { readonly stdin?: string; readonly deadlineMs?: number } = {},
  ): Promise<CommandResult> {
    const line = [program, ...args].join(' ');
    this.ran.push({ line, stdin: options.stdin });
    this.deadlineMs = options.deadlineMs;
    const found = this.#programs[line];
    if (found === undefined) throw new KernelError(program, 'MISSING_COMMAND', `${program} is not installed`);
    return await Promise.resolve({ status: 0, stdout: '', stderr: '', ...found });
  }
}

const NO_TABLES: FoundTables = {
  find: () => Promise.resolve([]),
  remove: () => Promise.resolve(),
  chainsOf: () => Promise.resolve([]),
};
const EMPTY = { 'iptables-save': {}, 'ip6tables-save': {} };
const BOTH = {
  'iptables-nft-save': {},
  'ip6tables-nft-save': {},
  'iptables-legacy-save': { stdout: IPTABLES_MODE },
  'ip6tables-legacy-save': {},
};

describe('leftovers of other modes', () => {
  test('without leftovers, nothing is done or logged', async () => {
    expect(await new Leftovers(new FakeRunner(EMPTY), { tables: NO_TABLES }).find()).toEqual([]);
  });

  test('leftovers of iptables mode are all its chains except those of the kubelet, ours and foreign ones, in their variant', async () => {
    const [found, ...more] = await new Leftovers(new FakeRunner(BOTH), { tables: NO_TABLES }).find();
    expect(more).toEqual([]);
    expect(found).toMatchObject({ kind: 'chains', family: 4, variant: 'legacy', script: REMOVAL });
    expect(describeLeftover(found!)).toBe(
      '9 chains in iptables-legacy-save (mangle/KUBE-PROXY-CANARY, filter/KUBE-EXTERNAL-SERVICES, filter/KUBE-NODEPORTS, ' +
        'filter/KUBE-PROXY-CANARY, filter/KUBE-SERVICES, ...)',
    );
  });

  test('leftovers of iptables mode are removed by one iptables-restore of their variant', async () => {
    const runner = new FakeRunner({ ...BOTH, 'iptables-legacy-restore --noflush --wait=20': {} });
    const leftovers = new Leftovers(runner, { tables: NO_TABLES });
    for (const found of await leftovers.find()) await leftovers.remove(found);
    expect(runner.ran.at(-1)).toEqual({ line: 'iptables-legacy-restore --noflush --wait=20', stdin: REMOVAL });
  });

  test('many leftovers have more time to be removed', async () => {
    const runner = new FakeRunner({ 'iptables-legacy-restore --noflush --wait=20': {} });
    const leftovers = new Leftovers(runner, { tables: NO_TABLES });
    const script = '-X KUBE-SVC-ABCDEFGHIJKLMNOP\n'.repeat(400_000);
    await leftovers.remove({ kind: 'chains', family: 4, variant: 'legacy', chains: [], script });
    expect(runner.deadlineMs).toBeGreaterThan(120_000);
  });

  test('only the variants that are asked for are read', async () => {
    const runner = new FakeRunner(BOTH);
    expect(await new Leftovers(runner, { tables: NO_TABLES, variants: ['nft'] }).find()).toEqual([]);
    expect(runner.ran.map(({ line }) => line)).toEqual(['iptables-nft-save', 'ip6tables-nft-save']);
  });

  test('for nftables mode, chains that ipvs mode uses are leftovers, too, if they are named', async () => {
    const named = new Set([
      'nat/KUBE-MARK-MASQ',
      'filter/KUBE-FORWARD',
      'filter/KUBE-PROXY-FIREWALL',
      'nat/KUBE-SERVICES',
    ]);
    const [found] = await new Leftovers(new FakeRunner(BOTH), { tables: NO_TABLES, chains: named }).find();
    if (found?.kind !== 'chains') throw new Error('no chains');
    expect(found.chains).toEqual(expect.arrayContaining([...named]));
    const [mangle, filter, nat] = found.script.split('COMMIT\n');
    expect(mangle).not.toContain('-X KUBE-KUBELET-CANARY');
    expect(filter).toContain('-X KUBE-FORWARD');
    expect(filter).toContain('-D FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD');
    expect(filter).not.toContain('-X KUBE-FIREWALL');
    expect(filter).not.toContain('-s 10.0.0.0/8');
    expect(nat).toContain('-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES');
  });

  describe('rules of other programs', () => {
    const CHAINS = new Set(['nat/KUBE-MARK-MASQ', 'nat/KUBE-SERVICES', 'nat/KUBE-NODE-PORT']);
    const NEIGHBOURS = [
      '-A PREROUTING -p tcp -m tcp --dport 8080 -j KUBE-NODE-PORT',
      '-A CNI-DN-0123456789abcdef01234 -s 10.244.0.0/24 -p tcp -m tcp --dport 8081 -j KUBE-MARK-MASQ',
    ];
    const OURS = [
      '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
      '-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ',
      '-A KUBE-NODE-PORT -p tcp -j KUBE-MARK-MASQ',
      '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
    ];
    const found = async (chains: readonly string[], rules: readonly string[]) => {
      const declared = ['PREROUTING', 'CNI-DN-0123456789abcdef01234', ...chains].map((name) => `:${name} - [0:0]`);
      const stdout = ['*nat', ...declared, ...rules, 'COMMIT', ''].join('\n');
      const runner = new FakeRunner({ 'iptables-save': { stdout }, 'ip6tables-save': {} });
      return await new Leftovers(runner, { tables: NO_TABLES, chains: CHAINS }).find();
    };

    test('a chain that they jump to is emptied and stays, one that only marks packets stays as it is', async () => {
      const [left] = await found(['KUBE-SERVICES', 'KUBE-NODE-PORT', 'KUBE-MARK-MASQ'], [...OURS, ...NEIGHBOURS]);
      expect(left).toMatchObject({
        chains: ['nat/KUBE-SERVICES', 'nat/KUBE-NODE-PORT'],
        script: `*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODE-PORT - [0:0]
-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-X KUBE-SERVICES
COMMIT
`,
      });
    });

    test('a chain that stays is not found again', async () => {
      expect(await found(['KUBE-NODE-PORT', 'KUBE-MARK-MASQ'], NEIGHBOURS)).toEqual([]);
      expect(await found(['KUBE-NODE-PORT', 'KUBE-MARK-MASQ'], [...NEIGHBOURS, ...OURS.slice(3)])).toEqual([]);
    });

    test('a chain that nothing jumps to any more is removed', async () => {
      const [left] = await found(['KUBE-NODE-PORT', 'KUBE-MARK-MASQ'], NEIGHBOURS.slice(0, 1));
      expect(left).toMatchObject({ chains: ['nat/KUBE-MARK-MASQ'] });
    });
  });

  test('chains in a table that iptables-save cannot print are named, and stay', async () => {
    const unprinted =
      "# Table `filter' is incompatible, use 'nft' tool.\n# Table `nat' is incompatible, use 'nft' tool.\n";
    const runner = new FakeRunner({ 'iptables-nft-save': { stdout: unprinted }, 'ip6tables-nft-save': {} });
    const chainsOf: FoundTables['chainsOf'] = (_family, table) =>
      Promise.resolve(table === 'nat' ? ['PREROUTING', 'KUBE-NODEPORTS', 'KUBE-SEP-ABCDEFGHIJKLMNOP'] : ['INPUT']);
    const leftovers = new Leftovers(runner, { tables: { ...NO_TABLES, chainsOf } });
    const [found, ...more] = await leftovers.find();
    expect(more).toEqual([]);
    const text = '2 chains in iptables-nft-save (nat/KUBE-NODEPORTS, nat/KUBE-SEP-ABCDEFGHIJKLMNOP)';
    expect(describeLeftover(found!)).toBe(text);
    await expect(leftovers.remove(found!)).rejects.toMatchObject({
      code: 'UNREADABLE',
      message: expect.stringContaining('cannot print table nat') as unknown,
    });
  });

  test('leftovers of nftables mode are its tables, which the kernel removes', async () => {
    const removed: number[] = [];
    const tables: FoundTables = {
      ...NO_TABLES,
      find: () => Promise.resolve([4, 6]),
      remove: (family) => {
        removed.push(family);
        return family === 4 ? Promise.resolve() : Promise.reject(new Error('EPERM: needs root or CAP_NET_ADMIN'));
      },
    };
    const leftovers = new Leftovers(new FakeRunner(EMPTY), { tables });
    const found = await leftovers.find();
    expect(found.map(describeLeftover)).toEqual(['nftables table ip kube-proxy', 'nftables table ip6 kube-proxy']);
    await leftovers.remove(found[0]!);
    await expect(leftovers.remove(found[1]!)).rejects.toThrow('needs root');
    expect(removed).toEqual([4, 6]);
  });
});
