import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { ConntrackConfig } from '../../../../src/config/proxy-config.ts';
import { countCpus, planConntrack, setUpConntrack } from '../../../../src/daemon/startup/conntrack-setup.ts';
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
const EMPTY: ConntrackConfig = { ...DEFAULTS, maxPerCore: 0, tcpEstablishedTimeout: 0, tcpCloseWaitTimeout: 0 };
const SMALL = { cpus: 8, max: 65_536, hashsize: 16_384 };

describe('planConntrack', () => {
  test.each([
    ['so many for each CPU', {}, SMALL, 262_144, 65_536],
    ['at least the minimum', {}, { ...SMALL, cpus: 2 }, 131_072, 32_768],
    ['at most 2^20, however many CPUs', {}, { ...SMALL, cpus: 512 }, 1_048_576, 262_144],
    ['a minimum above 2^20 wins over the cap', { min: 2_000_000 }, { ...SMALL, cpus: 512 }, 2_000_000, 500_000],
    ['never lowered', {}, { cpus: 8, max: 262_145, hashsize: 65_536 }, undefined, undefined],
    ['already so', {}, { cpus: 8, max: 262_144, hashsize: 65_536 }, undefined, undefined],
    ['enough connections, too few buckets', {}, { cpus: 8, max: 300_000, hashsize: 65_535 }, undefined, 65_536],
    ['more buckets than needed', {}, { cpus: 8, max: 1_000, hashsize: 262_144 }, 262_144, undefined],
    ['a fourth is truncated', { maxPerCore: 7, min: 0 }, { cpus: 1, max: 1, hashsize: 0 }, 7, 1],
    ['maxPerCore 0 leaves all alone, and the minimum too', { maxPerCore: 0 }, SMALL, undefined, undefined],
  ])('%s', (_name, change, facts, max, hashsize) => {
    const plan = planConntrack({ ...DEFAULTS, ...change }, facts);
    expect([plan.max, plan.hashsize]).toEqual([max, hashsize]);
  });

  test('timeouts are whole seconds, at least one, 0 leaves them alone, and be_liberal is only ever switched on', () => {
    expect(planConntrack(DEFAULTS, SMALL).sysctls).toEqual([
      ['nf_conntrack_tcp_timeout_established', 86_400],
      ['nf_conntrack_tcp_timeout_close_wait', 3_600],
    ]);
    expect(planConntrack(EMPTY, SMALL).sysctls).toEqual([]);
    const all = { ...EMPTY, udpTimeout: 30_999, udpStreamTimeout: 0.000001, tcpBeLiberal: true };
    expect(planConntrack(all, SMALL).sysctls).toEqual([
      ['nf_conntrack_udp_timeout', 30],
      ['nf_conntrack_udp_timeout_stream', 1],
      ['nf_conntrack_tcp_be_liberal', 1],
    ]);
  });
});

test.each([
  ['0-3\n', 4],
  ['0', 1],
  ['0-1,4-7,9', 7],
  ['', undefined],
  ['3-1', undefined],
  ['all', undefined],
])('CPUs in %j: %s', (text, count) => {
  expect(countCpus(text)).toBe(count);
});

describe('setUpConntrack', () => {
  let sysfs: string;
  let hashFile: string;
  let kernel: FakeKernel;
  let log: TestLog;

  beforeEach(async () => {
    sysfs = await mkdtemp(path.join(tmpdir(), 'sysfs-'));
    hashFile = path.join(sysfs, 'module/nf_conntrack/parameters/hashsize');
    await mkdir(path.dirname(hashFile), { recursive: true });
    await writeFile(hashFile, '16384\n');
    await mkdir(path.join(sysfs, 'devices/system/cpu'), { recursive: true });
    await writeFile(path.join(sysfs, 'devices/system/cpu/online'), '0-15\n');
    kernel = new FakeKernel();
    log = new TestLog();
  });

  afterEach(() => rm(sysfs, { recursive: true }));

  const setUp = (change: Partial<ConntrackConfig> = {}): Promise<void> =>
    setUpConntrack(kernel, { ...DEFAULTS, ...change }, log, sysfs);

  test('writes maximum, buckets and timeouts once; a second run writes nothing', async () => {
    await setUp({ tcpBeLiberal: true });
    expect(kernel.sysctls.get('net/netfilter/nf_conntrack_max')).toBe(String(16 * 32_768));
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
    kernel.sysctls.delete('net/netfilter/nf_conntrack_max');
    await expect(setUp()).rejects.toThrow(/net\/netfilter\/nf_conntrack_max does not exist.*nf_conntrack/);
    kernel.sysctls.set('net/netfilter/nf_conntrack_max', '1');
    kernel.failMethod('setSysctl', 'EACCES');
    await expect(setUp()).rejects.toThrow(/--conntrack-max-per-core=0/);
  });

  test('buckets that cannot be written are fatal and name the file; enough of them need no writing', async () => {
    await rm(hashFile);
    await mkdir(hashFile);
    await expect(setUp()).rejects.toThrow(/hashsize cannot be set to 131072: EISDIR.*mount \/sys writable/);
    await rm(hashFile, { recursive: true });
    await writeFile(hashFile, '131072', { mode: 0o400 });
    await setUp();
    expect(await readFile(hashFile, 'utf8')).toBe('131072');
  });

  test('with maxPerCore 0 neither is even read', async () => {
    await rm(hashFile);
    kernel.sysctls.delete('net/netfilter/nf_conntrack_max');
    await setUp({ maxPerCore: 0 });
    expect(kernel.sysctls.get('net/netfilter/nf_conntrack_tcp_timeout_established')).toBe('86400');
  });

  test('without a list of CPUs in sysfs those of this process count', async () => {
    await rm(path.join(sysfs, 'devices'), { recursive: true });
    await setUp({ min: 1, maxPerCore: 100_000 });
    expect(Number(kernel.sysctls.get('net/netfilter/nf_conntrack_max'))).toBeGreaterThanOrEqual(100_000);
  });
});
