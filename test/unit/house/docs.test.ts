import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { FLEET_COMMANDS } from '../../../src/command/program/run-command.ts';
import { FLAGS } from '../../../src/config/flags/flag-table.ts';
import { OWN_FLAGS } from '../../../src/config/flags/own-flags.ts';
import { ABSENT_METRICS, METRICS } from '../../../src/observe/metric-table.ts';
import { KNOWN_DIFFERENCES } from '../../../src/state/rules/known-difference.ts';

const PAGES = ['', 'docs/', 'docs/install/', 'lab/', 'lab/cluster/', 'lab/notes/', 'lab/results/']
  .flatMap((folder) => readdirSync(folder || '.').map((name) => `${folder}${name}`))
  .filter((name) => name.endsWith('.md'));
const NAMES = new Set([...Object.keys(METRICS), ...Object.keys(ABSENT_METRICS)]);

function found(text: string, pattern: RegExp): string[] {
  return Array.from(text.matchAll(pattern), ([, match]) => match ?? '');
}

test('docs/README.md links every page in docs/', () => {
  const links = found(readFileSync('docs/README.md', 'utf8'), /\]\(([^)#]+)/g).map((link) => path.join('docs', link));
  const pages = PAGES.filter((page) => /^docs\/[^/]*$/.test(page) && page !== 'docs/README.md');
  expect(pages.filter((page) => !links.includes(page))).toEqual([]);
});

test('docs/install/README.md links every page in docs/install/', () => {
  const links = found(readFileSync('docs/install/README.md', 'utf8'), /\]\(([\w-]+\.md)\)/g);
  const pages = PAGES.filter((page) => page.startsWith('docs/install/')).map((page) => path.basename(page));
  expect(pages.filter((page) => page !== 'README.md' && !links.includes(page))).toEqual([]);
});

test('lab/README.md links every page in lab/', () => {
  const links = found(readFileSync('lab/README.md', 'utf8'), /\]\(([^)#]+)/g).map((link) => path.join('lab', link));
  const pages = PAGES.filter((page) => page.startsWith('lab/') && page !== 'lab/README.md');
  expect(pages.filter((page) => !links.includes(page))).toEqual([]);
});

test('docs/differences.md explains each known difference of a dry run', () => {
  const [, section = ''] = readFileSync('docs/differences.md', 'utf8').split('## Known differences in a dry run');
  expect(found(section, /^\| `([a-z0-9-]+)`/gm).toSorted()).toEqual(KNOWN_DIFFERENCES.toSorted());
});

test('docs/differences.md names each flag that kube-proxy does not have', () => {
  const [, section = ''] = readFileSync('docs/differences.md', 'utf8').split('- **additional flags**');
  const entry = section.slice(0, section.indexOf('\n- **'));
  const names = Object.values(OWN_FLAGS).map(({ name }) => name);
  expect(new Set(found(entry, /`--([a-z-]+)`/g))).toEqual(new Set(names));
});

test('README says in its third paragraph what is proven, with the numbers of lab/results/', () => {
  const [, , , proven = ''] = readFileSync('README.md', 'utf8').split('\n\n');
  const sumOf = (page: string, isOurs: RegExp, column: number): number =>
    readFileSync(page, 'utf8')
      .split('\n')
      .map((row) => row.split('|').map((cell) => cell.trim()))
      .filter((cells) => cells.some((cell) => isOurs.test(cell)) && /^\d+$/.test(cells[column] ?? ''))
      .reduce((sum, cells) => sum + Number(cells[column]), 0);
  const e2e = [2, 3, 4].map((column) => sumOf('lab/results/e2e.md', /^ours/, column));
  expect(proven).toContain(`${e2e[0]} of upstream's e2e results passed, ${e2e[1]} failed and ${e2e[2]} were skipped`);
  const { trials } = JSON.parse(readFileSync('lab/results/trials.json', 'utf8')) as {
    trials: { proxy: string; asked: number; failed: number }[];
  };
  const ours = trials.filter(({ proxy }) => proxy.startsWith('ours'));
  const total = (of: 'asked' | 'failed'): string =>
    ours.reduce((sum, trial) => sum + trial[of], 0).toLocaleString('en');
  expect(proven.replaceAll('\n', ' ')).toContain(
    `In ${ours.length} trials under load, ${total('failed')} of ${total('asked')} connections failed`,
  );
  const combinations = /^\| ours in ipvs mode +\| [^|]*\| [^|]*\| (\d+) /m.exec(
    readFileSync('lab/results/traffic-matrix.md', 'utf8'),
  );
  expect(proven).toContain(`${combinations?.[1]} combinations of client, address and policy`);
});

test('docs/support.md has each release of Kubernetes with which e2e specs have run', () => {
  const ran = new Set(found(readFileSync('lab/results/e2e.md', 'utf8'), /^## Kubernetes ([\d.]+),/gm));
  const [, tested = ''] = /^\| Kubernetes \| tested: (.*?) \|/m.exec(readFileSync('docs/support.md', 'utf8')) ?? [];
  expect(found(tested, /(\d+\.\d+\.\d+)/g).toSorted()).toEqual([...ran].toSorted());
});

/** The anchors that GitHub gives to the headings of a page. */
function anchorsOf(page: string): string[] {
  const text = readFileSync(page, 'utf8').replaceAll(/^```.*?^```$/gms, '');
  const names = found(text, /^#+ (.+)$/gm).map((heading) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
  return names.map((name, index) => {
    const before = names.slice(0, index).filter((other) => other === name).length;
    return before === 0 ? name : `${name}-${before}`;
  });
}

/** A page that names what is not there (any more) leads newcomers astray. */
describe.each(PAGES)('%s', (page) => {
  const text = readFileSync(page, 'utf8');

  test('every link and file name on the page exists', () => {
    const links = found(text, /\]\((?!https?:)([^)#]+)/g).map((link) => path.join(path.dirname(page), link));
    // build/ is there only after a build.
    const names = found(text, /`((?:src|test|lab|docs|native|scripts|manifests|\.ci)\/[\w./-]*)`/g);
    expect([...links, ...names].filter((name) => !existsSync(name))).toEqual([]);
  });

  test('every heading to which the page links exists', () => {
    const links = found(text, /\]\(((?!https?:)[^)#\s]*(?:\.md)?#[^)\s]+)\)/g);
    const missing = links.filter((link) => {
      const [file = '', anchor = ''] = link.split('#');
      return !anchorsOf(file === '' ? page : path.join(path.dirname(page), file)).includes(anchor);
    });
    expect(missing).toEqual([]);
  });

  test('every flag on the page exists', () => {
    const known = new Set(FLAGS.map(({ name }) => name));
    const other = new Set([
      'selectProjects',
      'runInBand',
      'testPathPatterns',
      'random-fully',
      'experimental-vm-modules',
      'max-semi-space-size',
      'max-old-space-size',
      'max-old-space-size-percentage',
      'use-openssl-ca',
      'build-snapshot',
      'v8-pool-size',
      'min-semi-space-size',
      'max-lazy',
      'optimize-for-size',
      'heap-growing-percent',
      'single-threaded-gc',
      'no-concurrent-marking',
      // our subcommands, curl
      'node',
      'unix-socket',
      // the subcommand top
      'by',
      'interval',
      'sort',
      // kubectl, kind and replace-kube-proxy.sh
      'as',
      'name',
      'previous',
      'profile',
      'sort-by',
      'tail',
      'type',
      'dry-run',
      'undo',
      // scripts/migrate
      'all',
      'remove',
      'force',
      'image',
      'overlay',
      'server',
      // kube-router
      'run-service-proxy',
      // kubeadm, kops, aws and systemctl
      'skip-phases',
      'yes',
      'instance-group',
      'cluster-name',
      'addon-name',
      'preserve',
      'configuration-values',
      // helm, cosign, gh, tar and systemctl
      'namespace',
      'set',
      'certificate-oidc-issuer',
      'certificate-identity',
      'check',
      'owner',
      'bundle',
      'ignore-missing',
      'no-same-owner',
      'now',
      // ipvsadm, iptables and conntrack
      'stats',
      'timeout',
      'orig-dst',
      'match-set',
      'or-mark',
      'xor-mark',
      'noflush',
      // explain
      'from',
      'to',
      // fleet
      ...Object.values(FLEET_COMMANDS).flatMap(({ options }) => Object.keys(options)),
      // kube-apiserver
      'service-cluster-ip-range',
    ]);
    const flags = found(text, /(?<![\w-])--([a-zA-Z][\w-]*[\w])/g);
    // Of programs of others: jest, iptables, node, kubectl, the controller manager.
    expect(flags.filter((name) => !known.has(name) && !other.has(name))).toEqual([]);
  });

  test('every metric on the page exists', () => {
    const names = found(text, /`(kube(?:ipvs|proxy)_[a-z_]+[a-z])\b(?!_)/g);
    expect(names.filter((name) => !NAMES.has(name))).toEqual([]);
  });
});
