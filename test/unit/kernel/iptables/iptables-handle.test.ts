import { describe, expect, test } from '@jest/globals';
import type { CommandResult, CommandRunner } from '../../../../src/kernel/command-runner.ts';
import { type IptablesFacts, NO_IPTABLES_FACTS } from '../../../../src/kernel/iptables/iptables-facts.ts';
import { parseCounters, parseSave } from '../../../../src/kernel/iptables/iptables-save.ts';
import { detectVariant } from '../../../../src/kernel/iptables/iptables-variant.ts';
import { Iptables } from '../../../../src/kernel/iptables/iptables-handle.ts';
import {
  displacedJumps,
  removeScript,
  repairScript,
  rulePackets,
} from '../../../../src/kernel/iptables/rule-set-script.ts';
import { KernelError } from '../../../../src/kernel/kernel-error.ts';
import type { RuleSet } from '../../../../src/state/rules/rule-set.ts';
import { QuietLog } from '../../../contract/quiet-log.ts';
import { RecordingLog } from '../../kube/recording-log.ts';

const RULES: RuleSet = {
  family: 4,
  chains: [
    { table: 'filter', name: 'KUBE-FORWARD', rules: [['-m', 'mark', '--mark', '0x4000/0x4000', '-j', 'ACCEPT']] },
    { table: 'filter', name: 'KUBE-FIREWALL', rules: [['-j', 'DROP']] },
    { table: 'filter', name: 'KUBE-ACCEPT', rules: [] },
  ],
  jumps: [
    { table: 'filter', from: 'FORWARD', to: 'KUBE-FORWARD', comment: 'forwarding rules' },
    { table: 'filter', from: 'FORWARD', to: 'KUBE-FIREWALL', comment: 'firewall rules' },
    { table: 'filter', from: 'INPUT', to: 'KUBE-ACCEPT', comment: 'accepted', position: 'last' },
  ],
};

const CHAINS = [
  ':KUBE-ACCEPT - [0:0]',
  ':KUBE-FIREWALL - [0:0]',
  ':KUBE-FORWARD - [0:0]',
  '-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT',
  '-A KUBE-FIREWALL -j DROP',
];
const FIREWALL = '-A FORWARD -m comment --comment "firewall rules" -j KUBE-FIREWALL';
const FORWARD = '-A FORWARD -m comment --comment "forwarding rules" -j KUBE-FORWARD';
const ACCEPT = '-A INPUT -m comment --comment accepted -j KUBE-ACCEPT';
const OTHER = '-A FORWARD -j OTHER';
const OTHER_INPUT = '-A INPUT -p tcp -j OTHER';

function saved(...rules: readonly string[]): string {
  const builtIn = [':INPUT ACCEPT [0:0]', ':FORWARD ACCEPT [1:2]', ':OUTPUT ACCEPT [0:0]', ':OTHER - [0:0]'];
  return ['# Generated', '*filter', ...builtIn, ...CHAINS, ...rules, 'COMMIT', '# Completed', ''].join('\n');
}

const repair = (text: string): string[] => repairScript(RULES, parseSave(text)).split('\n').slice(0, -1);
const REPLACED = [
  '-I FORWARD -m comment --comment "forwarding rules" -j KUBE-FORWARD',
  '-I FORWARD -m comment --comment "firewall rules" -j KUBE-FIREWALL',
];

describe('what iptables-restore is given', () => {
  test('nothing is restored if all our rules exist, wherever they are among foreign rules', () => {
    expect(repair(saved(FIREWALL, FORWARD, ACCEPT))).toEqual([]);
    expect(repair(saved(OTHER, FIREWALL, OTHER, FORWARD, OTHER_INPUT, ACCEPT))).toEqual([]);
  });

  test('the counters of iptables-save --counters are read by rule, and the rules are the same as without', () => {
    const plain = saved(FIREWALL, FORWARD, ACCEPT);
    const counted = plain
      .replaceAll(/^-A/gm, '[7:420] -A')
      .replace('[7:420] -A KUBE-FORWARD', '[12:720] -A KUBE-FORWARD');
    expect(parseSave(counted)).toEqual(parseSave(plain));
    expect(repair(counted)).toEqual([]);
    const packets = (text: string) => rulePackets(RULES, parseSave(text), new Map(), parseCounters(text));
    expect([...packets(counted)]).toEqual([
      ['filter KUBE-FORWARD', [12]],
      ['filter KUBE-FIREWALL', [7]],
      ['filter KUBE-ACCEPT', []],
    ]);
    // The counters of other rules would be misleading.
    expect([...packets(counted.replace('-j DROP', '-j ACCEPT')).keys()]).not.toContain('filter KUBE-FIREWALL');
  });

  test('everything is restored if no rule exists', () => {
    expect(repair('')).toEqual([
      '*filter',
      ...CHAINS,
      ...REPLACED,
      '-A INPUT -m comment --comment accepted -j KUBE-ACCEPT',
      'COMMIT',
    ]);
  });

  test('only a chain that differs is restored', () => {
    const changed = saved(FIREWALL, FORWARD, ACCEPT).replace('-j DROP', '-j ACCEPT');
    expect(repair(changed)).toEqual(['*filter', ':KUBE-FIREWALL - [0:0]', '-A KUBE-FIREWALL -j DROP', 'COMMIT']);
  });

  test('all our jumps of a built-in chain are restored if one is missing, because their order matters', () => {
    const removed = '-D FORWARD -m comment --comment "firewall rules" -j KUBE-FIREWALL';
    expect(repair(saved(FIREWALL, OTHER, ACCEPT))).toEqual(['*filter', removed, ...REPLACED, 'COMMIT']);
  });

  test('our jumps are restored once and in order if they are duplicated or in the wrong order', () => {
    const removals = [FORWARD, FIREWALL, FORWARD].map((line) => line.replace('-A', '-D'));
    expect(repair(saved(FORWARD, FIREWALL, FORWARD, ACCEPT))).toEqual(['*filter', ...removals, ...REPLACED, 'COMMIT']);
    expect(repair(saved(FORWARD, FIREWALL, ACCEPT))).not.toEqual([]);
  });

  test('a jump that must be last is moved to the end if foreign rules are after it', () => {
    expect(repair(saved(FIREWALL, FORWARD, ACCEPT, OTHER_INPUT))).toEqual([
      '*filter',
      ACCEPT.replace('-A', '-D'),
      ACCEPT,
      'COMMIT',
    ]);
  });

  test('a jump that works is not moved once its position is left to another program', () => {
    const contested = saved(FIREWALL, FORWARD, FIREWALL, ACCEPT, OTHER_INPUT);
    const displaced = displacedJumps(RULES, parseSave(contested));
    expect(displaced).toEqual(['chain FORWARD of table filter, IPv4', 'chain INPUT of table filter, IPv4']);
    expect(repair(contested)).not.toEqual([]);
    expect(repairScript(RULES, parseSave(contested), new Map(), new Set(displaced))).toBe('');
    // But one that is missing, or accepts before another refuses, is put right.
    for (const wrong of [saved(FORWARD, FIREWALL, ACCEPT), saved(FIREWALL, FORWARD), saved(FIREWALL, ACCEPT)]) {
      expect(displacedJumps(RULES, parseSave(wrong))).toEqual([]);
      expect(repairScript(RULES, parseSave(wrong), new Map(), new Set(displaced))).not.toBe('');
    }
  });

  test('clean-up removes all our rules and nothing else', () => {
    const script = removeScript(RULES, parseSave(saved(FIREWALL, OTHER, FORWARD, ACCEPT)));
    expect(script.split('\n').slice(0, -1)).toEqual([
      '*filter',
      ':KUBE-FORWARD - [0:0]',
      ':KUBE-FIREWALL - [0:0]',
      ':KUBE-ACCEPT - [0:0]',
      ...[FIREWALL, FORWARD, ACCEPT].map((line) => line.replace('-A', '-D')),
      '-X KUBE-FORWARD',
      '-X KUBE-FIREWALL',
      '-X KUBE-ACCEPT',
      'COMMIT',
    ]);
    expect(removeScript(RULES, parseSave(''))).toBe('');
  });

  test('a chain that foreign rules jump to stays, but empty', () => {
    const script = removeScript(RULES, parseSave(saved('-A OTHER -p tcp -g KUBE-FIREWALL')));
    expect(script).toContain(':KUBE-FIREWALL - [0:0]\n');
    expect(script).not.toContain('-X KUBE-FIREWALL');
    expect(script).toContain('-X KUBE-FORWARD');
  });
});

/** A runner that answers by program name; a program that is not listed is not installed. */
function scripted(answers: Readonly<Record<string, Partial<CommandResult>>>): CommandRunner & { started: string[] } {
  const started: string[] = [];
  return {
    started,
    run: async (program, args) => {
      started.push([program, ...args].join(' '));
      const answer = answers[program];
      if (answer === undefined) throw new KernelError(program, 'MISSING_COMMAND', `${program} is not installed`);
      return await Promise.resolve({ status: 0, stdout: '', stderr: '', ...answer });
    },
  };
}

/** A node whose kernel has no nf_tables: these tables of IPv4, and after a restore the same with all of ours in force. */
interface LegacyNode extends CommandRunner {
  readonly started: string[];
  readonly restored: string[];
  tables: string;
  /** A line that iptables-restore fails on. */
  refuses: string | undefined;
}

function legacyNode(tables: string): LegacyNode {
  const node: LegacyNode = {
    started: [],
    restored: [],
    tables,
    refuses: undefined,
    run: async (program, args, { stdin = '' } = {}) => {
      node.started.push([program, ...args].join(' '));
      await Promise.resolve();
      if (program.includes('-nft-')) return { status: 1, stdout: '', stderr: 'not supported' };
      if (program === 'ip6tables-legacy-save') return { status: 0, stdout: '', stderr: '' };
      if (program === 'iptables-legacy-save') return { status: 0, stdout: node.tables, stderr: '' };
      if (program !== 'iptables-legacy-restore') throw new KernelError(program, 'MISSING_COMMAND', 'not installed');
      if (node.refuses !== undefined && stdin.includes(node.refuses))
        return { status: 1, stdout: '', stderr: 'Bad rule' };
      node.restored.push(stdin);
      node.tables = saved(FIREWALL, FORWARD, ACCEPT);
      return { status: 0, stdout: '', stderr: '' };
    },
  };
  return node;
}

describe('the variant of iptables', () => {
  const some = { stdout: saved(OTHER) };
  const more = { stdout: saved(OTHER, OTHER, OTHER) };
  const hinted = { stdout: '*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n' };
  const none = {};
  const broken = { status: 1 };
  const installed = (nft: Partial<CommandResult>, legacy: Partial<CommandResult>): CommandRunner =>
    scripted({
      'iptables-nft-save': nft,
      'ip6tables-nft-save': nft === broken ? broken : none,
      'iptables-legacy-save': legacy,
      'ip6tables-legacy-save': none,
    });

  test.each([
    ['nft', 'the one with more rules', more, some],
    ['legacy', 'the one with more rules', some, more],
    ['nft', "the one with a kubelet's hint", hinted, more],
    ['legacy', "the one with a kubelet's hint", more, hinted],
    ['system', 'what plain iptables is, when nothing is there', none, none],
    ['legacy', 'the one that works, when the kernel has no nf_tables', broken, none],
    ['nft', 'the one that works, when the kernel has no ip_tables', more, broken],
  ] as const)('the variant of iptables is %s: %s', async (variant, _reason, nft, legacy) => {
    expect((await detectVariant(installed(nft, legacy))).variant).toBe(variant);
  });

  test.each([
    ['killed', { status: -1 }],
    ['short of memory', { status: 1, stderr: 'iptables-nft-save: Cannot allocate memory' }],
  ])('the variant of iptables is not decided by a program that was %s', async (_what, failure) => {
    await expect(detectVariant(installed(failure, some))).rejects.toMatchObject({ code: 'MOMENTARY' });
  });

  test('a held iptables lock does not change the variant', async () => {
    const runner = scripted({
      'iptables-nft-save': {},
      'iptables-legacy-save': {},
      'iptables-save': { stdout: 'iptables-save v1.8.9 (nf_tables)' },
      'iptables-restore': { status: 4, stderr: 'Another app is currently holding the xtables lock.' },
      'iptables-legacy-restore': {},
    });
    const iptables = new Iptables(runner, new QuietLog(), () => undefined);
    await expect(iptables.ensure(RULES)).rejects.toMatchObject({ code: 'LOCKED' });
    expect(await iptables.variant()).toBe('system');
    expect(runner.started).not.toContainEqual(expect.stringContaining('legacy-restore'));
  });

  test('the variant of iptables is detected again after a program failed to start', async () => {
    const node = legacyNode('');
    let failures = 1;
    const iptables = new Iptables(
      {
        run: async (program, args, options) => {
          if (failures-- > 0) throw new KernelError(program, 'TIMEOUT', `${program} did not end`);
          return await node.run(program, args, options);
        },
      },
      new QuietLog(),
      () => undefined,
    );
    await expect(Promise.all([iptables.variant(), iptables.variant()])).rejects.toMatchObject({ code: 'TIMEOUT' });
    expect(await iptables.variant()).toBe('legacy');
  });

  test('if only plain iptables is installed, its variant is used', async () => {
    const detection = { variant: 'system', saved: new Map(), usable: new Set() };
    expect(await detectVariant(scripted({ 'iptables-save': some }))).toEqual(detection);
  });
});

describe('which detection starts no program', () => {
  const NFT = '/usr/sbin/xtables-nft-multi';
  const LEGACY = '/usr/sbin/xtables-legacy-multi';
  const all = {
    stdout: ['mangle', 'nat', 'filter']
      .map((table) => `*${table}\n:OTHER - [0:0]\n-A OTHER -j DROP\nCOMMIT\n`)
      .join(''),
  };
  const programs = (nft: Partial<CommandResult>, legacy: Partial<CommandResult>) =>
    scripted({
      'iptables-nft-save': nft,
      'ip6tables-nft-save': nft,
      'iptables-legacy-save': legacy,
      'ip6tables-legacy-save': legacy,
      'iptables-restore': {},
      'iptables-nft-restore': {},
      'iptables-legacy-restore': {},
    });
  interface Tables {
    readonly nft?: boolean;
    readonly legacy?: boolean;
  }
  const facts = (tables: Tables, plain = NFT): IptablesFacts => ({
    program: (name) => (name.includes('legacy') ? LEGACY : plain),
    hasTables: async (variant) => Promise.resolve(tables[variant]),
    generation: async () => Promise.resolve(undefined),
    legacyDigest: () => undefined,
  });
  const started = async (runner: ReturnType<typeof scripted>, known: IptablesFacts): Promise<readonly string[]> => {
    const iptables = new Iptables(runner, new QuietLog(), () => undefined, undefined, known);
    await iptables.probe(4);
    return runner.started;
  };
  const NFT_SAVES = ['iptables-nft-save', 'ip6tables-nft-save'];
  const LEGACY_SAVES = ['iptables-legacy-save', 'ip6tables-legacy-save'];
  const test4 = (program: string): string => `${program} --noflush --test --wait=3`;

  test('a variant without tables is not read', async () => {
    expect(await started(programs(all, {}), facts({ legacy: false }))).toEqual(NFT_SAVES);
    // Where that is not known, or there are some, it is asked.
    expect(await started(programs(all, {}), facts({}))).toEqual([...NFT_SAVES, ...LEGACY_SAVES]);
    expect(await started(programs(all, {}), facts({ nft: true, legacy: true }))).toEqual([
      ...NFT_SAVES,
      ...LEGACY_SAVES,
    ]);
    expect(await started(programs({}, all), facts({ nft: false }))).toEqual(LEGACY_SAVES);
  });

  test('no test run is needed on a node without rules if plain iptables has responded', async () => {
    expect(await started(programs({}, {}), facts({ legacy: false }))).toEqual(NFT_SAVES);
    expect(await started(programs({}, {}), facts({ nft: false, legacy: false }))).toEqual([]);
    expect(await started(programs({}, {}), facts({ nft: false, legacy: false }, LEGACY))).toEqual([
      test4('iptables-restore'),
    ]);
  });

  test('no test run of iptables-legacy is needed if all its tables were seen', async () => {
    const broken = { status: 1 };
    expect(await started(programs(broken, all), facts({ legacy: true }))).toEqual([...NFT_SAVES, ...LEGACY_SAVES]);
    const some = { stdout: '*nat\n:OTHER - [0:0]\n-A OTHER -j DROP\nCOMMIT\n' };
    expect(await started(programs(broken, some), facts({ legacy: true }))).toEqual([
      ...NFT_SAVES,
      ...LEGACY_SAVES,
      test4('iptables-legacy-restore'),
    ]);
  });

  test('a family that did not respond needs a test run, whose error is reported', async () => {
    const runner = programs(all, {});
    const run = runner.run.bind(runner);
    runner.run = async (program, args, options) =>
      program === 'iptables-nft-save' || program === 'iptables-nft-restore'
        ? { status: 4, stdout: '', stderr: 'Could not fetch rule set generation id' }
        : await run(program, args, options);
    const iptables = new Iptables(runner, new QuietLog(), () => undefined, undefined, facts({ legacy: false }));
    await expect(iptables.probe(4)).rejects.toMatchObject({ message: expect.stringContaining('generation id') });
    await expect(iptables.probe(6)).resolves.toBe('nft');
  });

  test('iptables-legacy that is not installed is not a variant', async () => {
    const nowhere: IptablesFacts = {
      program: () => undefined,
      hasTables: async () => Promise.resolve(false),
      generation: async () => Promise.resolve(undefined),
      legacyDigest: () => undefined,
    };
    const runner = scripted({ 'iptables-nft-save': {}, 'ip6tables-nft-save': {} });
    expect(await detectVariant(runner, nowhere)).toMatchObject({ variant: 'nft' });
  });
});

describe('rules in force', () => {
  test('checking the rules costs one iptables-save', async () => {
    const runner = scripted({ 'iptables-save': { stdout: saved(FIREWALL, FORWARD, ACCEPT) } });
    const iptables = new Iptables(runner, new QuietLog(), () => undefined);
    await iptables.variant();
    runner.started.length = 0;
    expect(await iptables.ensure(RULES)).toMatchObject({ changed: false });
    expect(runner.started).toEqual(['iptables-save']);
  });

  describe('with iptables-nft', () => {
    const IN_FORCE = { stdout: saved(FIREWALL, FORWARD, ACCEPT) };
    const SAVE = ['iptables-nft-save'];

    /** A node whose generation of nf_tables and time a test sets. */
    async function nftNode(save: { stdout: string }) {
      const runner = scripted({ 'iptables-nft-save': save, 'ip6tables-nft-save': {}, 'iptables-nft-restore': {} });
      const node = { generation: 7 as number | undefined, now: 0 };
      const facts: IptablesFacts = {
        program: () => '/usr/sbin/xtables-nft-multi',
        hasTables: async (variant) => Promise.resolve(variant === 'nft'),
        generation: async () => Promise.resolve(node.generation),
        legacyDigest: () => undefined,
      };
      const iptables = new Iptables(
        runner,
        new QuietLog(),
        () => undefined,
        undefined,
        facts,
        () => node.now,
      );
      await iptables.variant();
      /** Returns the programs that a check starts. */
      const check = async (rules: RuleSet = RULES): Promise<readonly string[]> => {
        runner.started.length = 0;
        await iptables.ensure(rules).catch(() => undefined);
        return runner.started.map((line) => line.split(' ')[0] ?? '');
      };
      return { node, check };
    }

    test('rules that were found in force are not read again until something in nf_tables changes', async () => {
      const { node, check } = await nftNode(IN_FORCE);
      expect(await check()).toEqual(SAVE);
      expect(await check()).toEqual([]);
      node.generation = 8;
      expect(await check()).toEqual(SAVE);
      expect(await check()).toEqual([]);
      expect(await check({ ...RULES, jumps: [] })).toEqual(SAVE);
    });

    test('they are read again after ten minutes, and in each check if the generation is unknown', async () => {
      const { node, check } = await nftNode(IN_FORCE);
      await check();
      node.now = 599_000;
      expect(await check()).toEqual([]);
      node.now = 600_000;
      expect(await check()).toEqual(SAVE);
      node.generation = undefined;
      expect([await check(), await check()]).toEqual([SAVE, SAVE]);
    });

    test('a repair that changed them is read back, also if the generation did not change', async () => {
      const save = { ...IN_FORCE };
      const { node, check } = await nftNode(save);
      await check();
      save.stdout = saved(FIREWALL, FORWARD);
      node.generation = 9;
      expect(await check()).toContain('iptables-nft-restore');
      expect(await check()).toContain('iptables-nft-restore');
    });

    test('displaced jumps are read in each check: they are left where they are only for a time', async () => {
      const { check } = await nftNode({ stdout: saved(FIREWALL, FORWARD, ACCEPT, OTHER_INPUT) });
      for (let times = 0; times < 5; times++) expect(await check()).not.toEqual([]);
    });
  });

  test('with iptables-legacy, rules that were found in force are not read again until their tables change', async () => {
    const runner = legacyNode(saved(FIREWALL, FORWARD, ACCEPT));
    let digest: string | undefined = 'a';
    const asked: string[] = [];
    const facts: IptablesFacts = {
      ...NO_IPTABLES_FACTS,
      legacyDigest: (family, tables) => {
        asked.push([family, ...tables].join(' '));
        return digest;
      },
    };
    const iptables = new Iptables(runner, new QuietLog(), () => undefined, undefined, facts);
    await iptables.variant();
    const check = async (): Promise<readonly string[]> => {
      runner.started.length = 0;
      await iptables.ensure(RULES);
      return [...runner.started];
    };
    // The rules that were read to find the variant are compared first.
    await check();
    const save = ['iptables-legacy-save'];
    expect(await check()).toEqual([]);
    digest = 'b';
    expect(await check()).toEqual(save);
    expect(await check()).toEqual([]);
    digest = undefined;
    expect([await check(), await check()]).toEqual([save, save]);
    expect(new Set(asked)).toEqual(new Set(['4 filter']));
  });

  test('writing the rules on a node without rules costs one iptables-restore; the next check reads them back', async () => {
    const node = legacyNode('');
    const iptables = new Iptables(node, new QuietLog(), () => undefined);
    await iptables.variant();
    node.started.length = 0;
    expect(await iptables.ensure(RULES)).toMatchObject({ changed: true });
    expect(node.started).toEqual(['iptables-legacy-restore --noflush --wait=20']);
    node.started.length = 0;
    expect(await iptables.ensure(RULES)).toMatchObject({ changed: false });
    expect(node.started).toEqual(['iptables-legacy-save']);
  });

  test('writing the rules on a node with foreign rules costs one iptables-restore, too', async () => {
    const node = legacyNode(saved(OTHER).replace('-A KUBE-FIREWALL -j DROP\n', ''));
    const iptables = new Iptables(node, new QuietLog(), () => undefined);
    await iptables.variant();
    node.started.length = 0;
    expect(await iptables.ensure(RULES)).toMatchObject({ changed: true });
    expect(node.started).toEqual(['iptables-legacy-restore --noflush --wait=20']);
    expect(node.restored).toEqual([expect.stringContaining('-A KUBE-FIREWALL -j DROP\n')]);
  });

  test('a repair names the chains that it writes', async () => {
    const node = legacyNode('');
    const log = new RecordingLog();
    const iptables = new Iptables(node, log, () => undefined);
    await iptables.ensure(RULES);
    node.tables = saved(FIREWALL, FORWARD).replace('-A KUBE-FIREWALL -j DROP\n', '');
    expect(await iptables.ensure(RULES)).toEqual({ changed: true, chains: ['filter KUBE-FIREWALL', 'filter INPUT'] });
    const written = log.lines.filter(({ message }) => message === 'iptables rules written');
    expect(written.map(({ fields }) => fields['chains'])).toEqual([
      undefined,
      ['filter KUBE-FIREWALL', 'filter INPUT'],
    ]);
  });

  test('adopting existing rules costs one iptables-save', async () => {
    const node = legacyNode(saved(FIREWALL, FORWARD, ACCEPT));
    const iptables = new Iptables(node, new QuietLog(), () => undefined);
    await iptables.variant();
    node.started.length = 0;
    expect(await iptables.ensure(RULES)).toMatchObject({ changed: false });
    expect(node.started).toEqual(['iptables-legacy-save']);
  });

  test('bootstrap adds rules with one iptables-restore, but not if our chains hold other rules', async () => {
    const fresh = legacyNode('');
    const adding = new Iptables(fresh, new QuietLog(), () => undefined);
    await adding.variant();
    fresh.started.length = 0;
    expect(await adding.add(RULES)).toBe(true);
    expect(fresh.started).toEqual(['iptables-legacy-restore --noflush --wait=20']);

    const taken = legacyNode(saved(FIREWALL).replace('-j DROP', '-j ACCEPT'));
    expect(await new Iptables(taken, new QuietLog(), () => undefined).add(RULES)).toBe(false);
    expect(taken.restored).toEqual([]);
  });

  test('rules are read again if another program has changed what was seen', async () => {
    const node = legacyNode(saved(FORWARD, ACCEPT));
    const iptables = new Iptables(node, new QuietLog(), () => undefined);
    await iptables.variant();
    node.started.length = 0;
    node.tables = saved(FIREWALL, ACCEPT);
    node.refuses = `${FORWARD.replace('-A', '-D')}\n`;
    expect(await iptables.ensure(RULES)).toMatchObject({ changed: true });
    expect(node.started.map((line) => line.split(' ')[0])).toEqual([
      'iptables-legacy-restore',
      'iptables-legacy-save',
      'iptables-legacy-restore',
    ]);
    expect(node.restored).toEqual([expect.stringContaining(FIREWALL.replace('-A', '-D'))]);
  });

  test('a jump is moved behind the rule of another program twice, then left before it', async () => {
    const node = legacyNode(saved(FIREWALL, FORWARD, ACCEPT));
    const log = new RecordingLog();
    const iptables = new Iptables(node, log, () => undefined);
    const changed: boolean[] = [];
    for (let check = 0; check < 5; check++) {
      node.tables = saved(FIREWALL, FORWARD, ACCEPT, OTHER_INPUT);
      changed.push((await iptables.ensure(RULES)).changed);
    }
    expect(changed).toEqual([true, true, false, false, false]);
    expect(log.messages('warn')).toEqual([
      expect.stringMatching(
        /^another program keeps displacing our jumps in chain INPUT of table filter, IPv4\. .* moved them back 2 times/,
      ),
    ]);
    // What does not work is put right all the same.
    node.tables = saved(FIREWALL, FORWARD, OTHER_INPUT);
    expect(await iptables.ensure(RULES)).toMatchObject({ changed: true });
  });

  describe('on a kernel without table mangle', () => {
    const MANGLE: RuleSet = {
      ...RULES,
      chains: [{ table: 'mangle', name: 'KUBE-EXTRA', rules: [['-j', 'DROP']] }, ...RULES.chains],
      optionalTables: { mangle: 'the extra is not done' },
    };
    const withoutMangle = (listed: Partial<CommandResult>) => {
      const node = legacyNode('');
      const run = node.run.bind(node);
      node.run = async (program, args, options) => {
        if (program === 'iptables-legacy') return { status: 3, stdout: '', stderr: '', ...listed };
        const result = await run(program, args, options);
        if (options?.stdin?.includes('*mangle') !== true) return result;
        node.restored.pop();
        node.tables = '';
        return { status: 2, stdout: '', stderr: "iptables-restore: unable to initialize table 'mangle'" };
      };
      return node;
    };

    test('without table mangle, all other rules are written, and one warning is logged', async () => {
      const node = withoutMangle({ stderr: "can't initialize iptables table `mangle': Table does not exist" });
      const log = new RecordingLog();
      const iptables = new Iptables(node, log, () => undefined);
      expect(await iptables.ensure(MANGLE)).toMatchObject({ changed: true });
      expect(node.restored).toEqual([expect.stringMatching(/^\*filter\n/)]);
      expect(await iptables.ensure(MANGLE)).toMatchObject({ changed: false });
      expect(log.messages('warn')).toEqual([
        expect.stringMatching(
          /^IPv4: .* no iptables table mangle .* so the extra is not done; load the kernel module iptable_mangle on the node/,
        ),
      ]);
    });

    test('a temporary failure of table mangle does not omit its rules', async () => {
      const node = withoutMangle({ stderr: "can't initialize iptables table `mangle': Memory allocation problem" });
      const iptables = new Iptables(node, new QuietLog(), () => undefined);
      await expect(iptables.ensure(MANGLE)).rejects.toMatchObject({ code: 'MOMENTARY' });
      expect(node.restored).toEqual([]);
    });
  });

  test('rules are read, written and read back by one operation at a time', async () => {
    const node = legacyNode(saved(FIREWALL, FORWARD, ACCEPT));
    const iptables = new Iptables(node, new QuietLog(), () => undefined);
    node.tables = '';
    await iptables.ensure(RULES);
    node.tables = '';
    node.started.length = 0;
    const programs = ['iptables-legacy-save', 'iptables-legacy-restore', 'iptables-legacy-save'];
    await Promise.all([iptables.ensure(RULES), iptables.ensure(RULES)]);
    expect(node.started.map((line) => line.split(' ')[0])).toEqual([...programs, 'iptables-legacy-save']);
  });

  test('iptables-save may spell a rule differently, but not with another set or target', async () => {
    const matching = (set: string): string[] => ['-m', 'set', '--match-set', set, 'dst', '-j', 'ACCEPT'];
    const rules: RuleSet = {
      family: 4,
      chains: [{ table: 'filter', name: 'KUBE-FORWARD', rules: [matching('ONE')] }],
      jumps: [],
    };
    const line = `-A KUBE-FORWARD ${matching('ONE').join(' ')}`;
    const rewritten = async (change: (text: string) => string): Promise<boolean> => {
      const tables = `*filter\n:KUBE-FORWARD - [0:0]\n${change(line)}\nCOMMIT\n`;
      const runner = scripted({ 'iptables-save': { stdout: tables }, 'iptables-restore': {} });
      const iptables = new Iptables(runner, new QuietLog(), () => undefined);
      await iptables.ensure(rules);
      // The second write is read back, and what it finds is learned.
      await iptables.ensure(rules).catch(() => undefined);
      runner.started.length = 0;
      return await iptables.ensure(rules).then(
        ({ changed }) => changed,
        () => true,
      );
    };
    expect(await rewritten((text) => text)).toBe(false);
    expect(await rewritten((text) => text.replace('-j', '--return-nomatch -j'))).toBe(false);
    expect(await rewritten((text) => text.replace('ONE', 'TWO'))).toBe(true);
    expect(await rewritten((text) => text.replace('ACCEPT', 'DROP'))).toBe(true);
    expect(await rewritten((text) => text.replace('-m', '-s 192.0.2.1/32 -m'))).toBe(true);
  });

  test('rules that disappear after they were written are an error', async () => {
    const runner = scripted({ 'iptables-save': { stdout: saved() }, 'iptables-restore': {} });
    const iptables = new Iptables(runner, new QuietLog(), () => undefined);
    expect(await iptables.ensure(RULES)).toMatchObject({ changed: true });
    await expect(iptables.ensure(RULES)).rejects.toMatchObject({ code: 'NOT_IN_FORCE' });
  });

  test('if plain iptables does not work, the rules are written by the other variant from then on', async () => {
    const tables = { legacy: '' };
    const runner = scripted({
      'iptables-nft-save': {},
      'iptables-legacy-save': {},
      'iptables-save': { stdout: 'iptables-save v1.8.9 (nf_tables)' },
      'iptables-restore': { status: 4, stderr: 'line 2: TABLE_ADD failed (Operation not supported): table mangle' },
      'iptables-legacy-restore': {},
    });
    const run = runner.run.bind(runner);
    runner.run = async (program, args, options) => {
      if (program === 'iptables-legacy-restore') tables.legacy = saved(FIREWALL, FORWARD, ACCEPT);
      const result = await run(program, args, options);
      return program === 'iptables-legacy-save' ? { ...result, stdout: tables.legacy } : result;
    };
    const iptables = new Iptables(runner, new QuietLog(), () => undefined);
    expect(await iptables.ensure(RULES)).toMatchObject({ changed: true });
    runner.started.length = 0;
    expect(await iptables.ensure(RULES)).toMatchObject({ changed: false });
    expect(runner.started).toEqual(['iptables-legacy-save']);
  });

  test('if neither variant of iptables works, the error is that of plain iptables', async () => {
    const runner = scripted({
      'iptables-nft-save': {},
      'iptables-legacy-save': {},
      'iptables-save': { stdout: 'iptables-save v1.8.9 (nf_tables)' },
      'iptables-restore': { status: 4, stderr: 'TABLE_ADD failed' },
      'iptables-legacy-restore': { status: 3, stderr: 'cannot initialize' },
    });
    const iptables = new Iptables(runner, new QuietLog(), () => undefined);
    await expect(iptables.ensure(RULES)).rejects.toMatchObject({
      message: expect.stringContaining('TABLE_ADD failed'),
    });
    expect(await iptables.variant()).toBe('system');
  });

  test('if iptables-restore fails, the error has its output', async () => {
    const stderr = 'iptables-restore: Permission denied (you must be root)';
    const runner = scripted({ 'iptables-save': {}, 'iptables-restore': { status: 4, stderr } });
    const iptables = new Iptables(runner, new QuietLog(), () => undefined);
    await expect(iptables.ensure(RULES)).rejects.toMatchObject({
      code: 'EPERM',
      message: expect.stringContaining('must be root'),
    });
  });

  test.each<[code: string, what: string, result: Partial<CommandResult>]>([
    ['MOMENTARY', 'it is killed', { status: -1, signal: 'SIGKILL' }],
    [
      'MOMENTARY',
      'legacy, memory is short',
      { status: 4, stderr: 'iptables-restore: line 9 failed: Memory allocation problem' },
    ],
    [
      'MOMENTARY',
      'nft, memory is short',
      { status: 4, stderr: 'line 9: RULE_APPEND failed (Cannot allocate memory): rule in chain X' },
    ],
    [
      'MOMENTARY',
      'buffers are short',
      { status: 4, stderr: 'Could not fetch rule set generation id: No buffer space available' },
    ],
    ['MOMENTARY', 'processes are short', { status: 4, stderr: 'iptables-restore: Resource temporarily unavailable' }],
    ['IPTABLES', 'it crashes', { status: -1, signal: 'SIGSEGV' }],
    [
      'IPTABLES',
      'a rule is refused',
      { status: 4, stderr: 'line 9: RULE_APPEND failed (Invalid argument): rule in chain X' },
    ],
    [
      'IPTABLES',
      'a chain is in use',
      { status: 4, stderr: 'line 9: CHAIN_DEL failed (Device or resource busy): chain X' },
    ],
    [
      'IPTABLES',
      'a word is refused',
      { status: 2, stderr: "iptables-restore v1.8.9 (legacy): Bad argument `in-memory'" },
    ],
  ])('the code of the error is %s if %s', async (code, _what, result) => {
    const runner = scripted({ 'iptables-save': {}, 'iptables-restore': result });
    await expect(new Iptables(runner, new QuietLog(), () => undefined).write(4, '')).rejects.toMatchObject({ code });
  });

  test('rules that iptables-nft-save does not print are left alone, and the error names the table', async () => {
    const stdout = saved(FIREWALL, FORWARD, ACCEPT).replace(
      /\*filter[^]*COMMIT\n/,
      "# Table `filter' is incompatible, use 'nft' tool.\n",
    );
    const runner = scripted({ 'iptables-nft-save': { stdout }, 'iptables-nft-restore': {} });
    const iptables = new Iptables(runner, new QuietLog(), () => undefined);
    const unreadable = {
      code: 'UNREADABLE',
      message: expect.stringContaining('iptables-nft-save cannot print table filter'),
    };
    await expect(iptables.ensure(RULES)).rejects.toMatchObject(unreadable);
    await expect(iptables.ensure(RULES)).rejects.toMatchObject(unreadable);
    expect(await iptables.variant()).toBe('nft');
    await expect(iptables.add(RULES)).rejects.toMatchObject(unreadable);
    await expect(iptables.compare(RULES)).rejects.toMatchObject(unreadable);
    await expect(iptables.read(4)).rejects.toMatchObject(unreadable);
    await expect(iptables.find(4)).rejects.toMatchObject(unreadable);
    await expect(iptables.remove(RULES)).rejects.toMatchObject(unreadable);
    expect(runner.started.filter((program) => program.includes('restore'))).toEqual([]);
  });

  test('a table that iptables-nft-save prints in part, or that is not ours, changes nothing', async () => {
    const stdout = `${saved(FIREWALL, FORWARD, ACCEPT)}# Table \`filter' contains incompatible base-chains, use 'nft' tool to list them.
# Table \`raw' is incompatible, use 'nft' tool.
`;
    const runner = scripted({ 'iptables-nft-save': { stdout } });
    const iptables = new Iptables(runner, new QuietLog(), () => undefined);
    expect(await iptables.ensure(RULES)).toMatchObject({ changed: false });
    expect(await iptables.read(4)).toBe(stdout);
  });

  test('iptables-restore has more time for more rules', async () => {
    const deadlines: number[] = [];
    const runner: CommandRunner = {
      run: (program, _args, { deadlineMs = 0 } = {}) => {
        if (program.endsWith('restore')) deadlines.push(deadlineMs);
        return Promise.resolve({ status: 0, stdout: '', stderr: '' });
      },
    };
    const iptables = new Iptables(runner, new QuietLog(), () => undefined);
    await iptables.write(4, '*nat\nCOMMIT\n');
    // About a million rules.
    await iptables.write(4, 'x'.repeat(100_000_000));
    expect(deadlines.map((ms) => Math.round(ms / 1_000))).toEqual([50, 1_050]);
  });

  test('iptables-save has time for as many rules as there may be, also when the variant is detected', async () => {
    const deadlines: number[] = [];
    const runner: CommandRunner = {
      run: (program, _args, { deadlineMs = 0 } = {}) => {
        if (program.endsWith('save')) deadlines.push(deadlineMs);
        return Promise.resolve({ status: 0, stdout: '', stderr: '' });
      },
    };
    const iptables = new Iptables(runner, new QuietLog(), () => undefined);
    await iptables.read(4);
    expect(deadlines).toEqual(Array(5).fill(600_000));
  });
});
