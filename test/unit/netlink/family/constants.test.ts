import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';

const HEADERS = [
  'linux/ip_vs.h',
  'linux/genetlink.h',
  'linux/rtnetlink.h',
  'linux/if.h',
  'linux/if_addr.h',
  'linux/if_link.h',
  'linux/in.h',
  'linux/fou.h',
  'linux/if_tunnel.h',
  'linux/ip.h',
  'linux/sock_diag.h',
  'linux/netlink.h',
  'linux/net_namespace.h',
  'linux/netfilter/nfnetlink.h',
  'linux/netfilter/nfnetlink_conntrack.h',
  'linux/netfilter.h',
  'linux/netfilter/nf_tables.h',
  'linux/netfilter/nf_nat.h',
  'linux/netfilter/ipset/ip_set.h',
  'linux/netfilter/ipset/ip_set_hash.h',
];

/** Rows of tables, `const NAME = number`, and `[number, 'NAME']`. Bitmap errors are apart: they share numbers and a header. */
const PATTERNS = [
  /(?:required|reported|optional|fallback|constant|traced)\(\s*'(?<name>[A-Z]\w+)',\s*(?<value>\d+),/g,
  /^(?:export )?const (?<name>(?:NFT|NFTA|NF|IPSET_ATTR|IPSET_ERR|IPVS_CMD|IPVS_SVC|IPVS_DEST|CTA|RTM|IFF|IFA_F|NLM_F|NLA_F|NFNL|IPCTNL|CTRL|IPPROTO|SOCK_DIAG|FOU)_\w+) = (?<value>\w+);/gm,
  /\[(?<value>\d+), '(?<name>IPSET_ERR_(?!BITMAP)\w+)'\]/g,
];

// Where the header has only NLA_TYPE_MASK as a negative number.
const LEFT_OUT = new Set(['NLA_TYPE_MASK']);

interface Constant {
  readonly name: string;
  readonly value: string;
  readonly file: string;
}

function constantsIn(file: string): Constant[] {
  const source = readFileSync(file, 'utf8');
  return PATTERNS.flatMap((pattern) =>
    [...source.matchAll(pattern)].flatMap(({ groups }) =>
      groups === undefined ? [] : [{ name: groups['name']!, value: groups['value']!, file }],
    ),
  ).filter(({ name }) => !LEFT_OUT.has(name));
}

/** What the compiler says of the assertions that each constant has this value. */
function compile(constants: readonly Constant[]): string {
  const source = [
    ...HEADERS.map((header) => `#include <${header}>`),
    ...constants.map(({ name, value, file }) => `static_assert(${name} == ${value}, "${file}: ${name}");`),
  ].join('\n');
  const { error, stderr, status } = spawnSync('c++', ['-std=c++20', '-fsyntax-only', '-x', 'c++', '-'], {
    input: source,
    encoding: 'utf8',
  });
  if (error !== undefined) throw error;
  return status === 0 ? '' : stderr;
}

test('every constant that the families name has its value in the kernel’s headers', () => {
  const constants = globSync([
    'src/netlink/{codec,family/*,trace}/*.ts',
    'src/kernel/nftables/objects/steps.ts',
  ]).flatMap(constantsIn);
  expect(constants.length).toBeGreaterThan(100);
  expect(compile(constants)).toBe('');
  // And a wrong one would be seen.
  expect(compile([{ name: 'IPVS_SVC_ATTR_AF', value: '2', file: 'nowhere' }])).toContain('nowhere: IPVS_SVC_ATTR_AF');
});
