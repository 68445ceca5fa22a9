import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { ConntrackConfig } from '../../../../src/config/proxy-config.ts';
import { setUpConntrack } from '../../../../src/daemon/startup/conntrack-setup.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { TestLog } from '../../../support/reconciling.ts';

const HOUR = 3_600_000;

/** The defaults of the flags. */
const DEFAULTS: ConntrackConfig = {
  maxPerCore: 32_768,
  min: 131_072,
  tcpEstablishedTimeout: 24 * HOUR,
  tcpCloseWaitTimeout: HOUR,
  tcpBeLiberal: false,
  udpTimeout: 0,
  udpStreamTimeout: 0,
};
const MAX = 'net/netfilter/nf_conntrack_max';
const SMALL = { cpus: 8, max: 65_536, hashsize: 16_384 };

describe('setUpConntrack', () => {
  let root: string;
  let hashFile: string;
  let kernel: FakeKernel;
  let log: TestLog;
  let refused: string[];

  beforeEach(async () => {
    root = await mkdtemp(path.join(tmpdir(), 'conntrack-'));
    hashFile = path.join(root, 'sys/module/nf_conntrack/parameters/hashsize');
    await mkdir(path.dirname(hashFile), { recursive: true });
    await mkdir(path.join(root, 'proc'));
    kernel = new FakeKernel();
    log = new TestLog();
    refused = [];
    await found({ cpus: 16 });
  });

  afterEach(() => rm(root, { recursive: true }));

  async function found({ cpus = 16, max, hashsize = 16_384 }: Partial<typeof SMALL>): Promise<void> {
    const lines = Array.from({ length: cpus }, (_, cpu) => `cpu${cpu} 7 0 5 900\n`).join('');
    await writeFile(path.join(root, 'proc/stat'), `cpu  70 0 50 9000\n${lines}intr 5 0 cpu1\nctxt 9\n`);
    await writeFile(hashFile, `${hashsize}\n`);
    if (max !== undefined) kernel.sysctls.set(MAX, String(max));
  }

  const setUp = (change: Partial<ConntrackConfig> = {}): Promise<void> =>
    setUpConntrack(kernel, { ...DEFAULTS, ...change }, log, (text) => refused.push(text), root);

  test.each([
    ['so many for each CPU', {}, SMALL, 262_144, 65_536],
    ['at least the minimum', {}, { ...SMALL, cpus: 2 }, 131_072, 32_768],
    ['at most 2^20, however many CPUs', {}, { ...SMALL, cpus: 512 }, 1_048_576, 262_144],
    ['a minimum above 2^20 wins over the cap', { min: 2_000_000 }, { ...SMALL, cpus: 512 }, 2_000_000, 500_000],
    ['never lowered', {}, { cpus: 8, max: 262_145, hashsize: 65_536 }, 262_145, 65_536],
    ['already so', {}, { cpus: 8, max: 262_144, hashsize: 65_536 }, 262_144, 65_536],
    ['enough connections, too few buckets', {}, { cpus: 8, max: 300_000, hashsize: 65_535 }, 300_000, 65_536],
    ['more buckets than needed', {}, { cpus: 8, max: 1_000, hashsize: 262_144 }, 262_144, 262_144],
    ['a fourth is truncated', { maxPerCore: 7, min: 0 }, { cpus: 1, max: 1, hashsize: 0 }, 7, 1],
    ['maxPerCore 0 leaves all alone, and the minimum too', { maxPerCore: 0 }, SMALL, 65_536, 16_384],
  ])('%s', async (_name, change, facts, max, hashsize) => {
    await found(facts);
    await setUp(change);
    expect([kernel.sysctls.get(MAX), Number(await readFile(hashFile, 'utf8'))]).toEqual([String(max), hashsize]);
  });

  test('timeouts are whole seconds, at least one; 0 leaves them alone, and be_liberal too unless it is set', async () => {
    const names = ['tcp_timeout_established', 'udp_timeout', 'udp_timeout_stream', 'tcp_be_liberal'];
    const values = (): unknown[] => names.map((name) => kernel.sysctls.get(`net/netfilter/nf_conntrack_${name}`));
    const before = values();
    await setUp({ tcpEstablishedTimeout: 0 });
    expect(values()).toEqual(before);
    await setUp({ udpTimeout: 29_999, udpStreamTimeout: 0.000001, tcpBeLiberal: true });
    expect(values()).toEqual(['86400', '29', '1', '1']);
  });

  test('writes maximum, buckets and timeouts once; a second run writes nothing', async () => {
    await setUp({ tcpBeLiberal: true });
    expect(kernel.sysctls.get(MAX)).toBe(String(16 * 32_768));
    expect(await readFile(hashFile, 'utf8')).toBe(String(4 * 32_768));
    expect(kernel.sysctls.get('net/netfilter/nf_conntrack_tcp_timeout_established')).toBe('86400');
    expect(kernel.sysctls.get('net/netfilter/nf_conntrack_tcp_timeout_close_wait')).toBe('3600');
    expect(kernel.sysctls.get('net/netfilter/nf_conntrack_tcp_be_liberal')).toBe('1');
    expect(kernel.sysctls.get('net/netfilter/nf_conntrack_udp_timeout')).toBe('30');
    const { writes } = kernel.counters;
    await setUp({ tcpBeLiberal: true });
    expect(kernel.counters.writes).toBe(writes);
  });

  test('a maximum that cannot be written is fatal, names key, wanted and found, and says what to do', async () => {
    kernel.sysctls.delete(MAX);
    await expect(setUp()).rejects.toThrow(/net\/netfilter\/nf_conntrack_max does not exist.*nf_conntrack/);
    kernel.sysctls.set(MAX, '1');
    kernel.failMethod('setSysctl', 'EACCES');
    await expect(setUp()).rejects.toThrow(/--conntrack-max-per-core=0/);
  });

  test('buckets that cannot be written are a warning that names the file; enough of them need no writing', async () => {
    await rm(hashFile);
    await mkdir(hashFile);
    await setUp();
    expect(refused).toEqual([expect.stringMatching(/hashsize to 131072: EISDIR.*mount \/sys writable/)]);
    expect(log.lines).toContain(`warn: ${refused[0]}`);
    expect(kernel.sysctls.get('net/netfilter/nf_conntrack_tcp_timeout_established')).toBe('86400');
    await rm(hashFile, { recursive: true });
    await writeFile(hashFile, '131072', { mode: 0o400 });
    await setUp();
    expect(await readFile(hashFile, 'utf8')).toBe('131072');
    expect(refused).toHaveLength(1);
  });

  test('with maxPerCore 0 neither is even read', async () => {
    await rm(hashFile);
    kernel.sysctls.delete(MAX);
    await setUp({ maxPerCore: 0 });
    expect(kernel.sysctls.get('net/netfilter/nf_conntrack_tcp_timeout_established')).toBe('86400');
  });
});
