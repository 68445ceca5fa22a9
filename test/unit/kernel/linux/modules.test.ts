import { describe, expect, test } from '@jest/globals';
import { KernelError } from '../../../../src/kernel/kernel-error.ts';
import { loadFou, loadModules, requireIpvs } from '../../../../src/kernel/linux/modules.ts';

describe('the module ip_vs', () => {
  const there = (): boolean => true;
  const away = (): boolean => false;

  test('if ip_vs is loaded, no process is started', async () => {
    const runner = { run: () => Promise.reject(new Error('started')) };
    await expect(loadModules({ runner, exists: there })).resolves.toBeUndefined();
  });

  test('ip_vs is loaded if it is missing', async () => {
    const started: string[] = [];
    let loaded = false;
    const run = async (program: string, args: readonly string[]) => {
      started.push([program, ...args].join(' '));
      loaded = true;
      return await Promise.resolve({ status: 0, stdout: '', stderr: '' });
    };
    await loadModules({ runner: { run }, exists: () => loaded });
    expect(started).toEqual(['modprobe -- ip_vs']);
  });

  test('without the right to load modules, a match of iptables makes the kernel load ip_vs', async () => {
    const started: string[] = [];
    let loaded = false;
    const run = async (program: string, args: readonly string[]) => {
      started.push([program, ...args].join(' '));
      if (program === 'iptables-nft') return await Promise.reject(new Error('not installed'));
      loaded = program === 'iptables-legacy';
      return await Promise.resolve({ status: 1, stdout: '', stderr: 'not permitted' });
    };
    await loadModules({ runner: { run }, exists: () => loaded });
    expect(started).toEqual(['modprobe -- ip_vs', 'iptables-nft -m ipvs --help', 'iptables-legacy -m ipvs --help']);
  });

  test.each([
    ['modprobe fails', async () => Promise.resolve({ status: 1, stdout: '', stderr: 'FATAL: not found' }), 'FATAL'],
    ['it changes nothing', async () => Promise.resolve({ status: 0, stdout: '', stderr: '' }), '/proc/net/ip_vs'],
    [
      'there is no modprobe',
      async () => Promise.reject(new KernelError('modprobe', 'MISSING_COMMAND', 'modprobe is not installed')),
      'not installed',
    ],
  ])('a missing ip_vs is an error that names the remedy when %s', async (_case, run, words) => {
    await expect(loadModules({ runner: { run }, exists: away })).rejects.toMatchObject({
      code: 'MISSING_MODULE',
      message: expect.stringMatching(new RegExp(`${words}.*modprobe ip_vs`, 's')),
    });
  });

  test('a dry run demands ip_vs', async () => {
    await expect(requireIpvs(there)).resolves.toBeUndefined();
    await expect(requireIpvs(away)).rejects.toMatchObject({
      code: 'MISSING_MODULE',
      message: expect.stringContaining('a dry run loads no module'),
    });
  });
});

describe('the module fou', () => {
  test.each([
    ['', { status: 0, stdout: '', stderr: '' }, undefined],
    [', which says why not', { status: 1, stdout: '', stderr: 'FATAL: not found\n' }, 'FATAL: not found'],
    [', which says nothing', { status: 1, stdout: '', stderr: '' }, 'modprobe ended with status 1'],
  ])('is loaded by modprobe%s', async (_case, result, reason) => {
    const run = async (program: string, args: readonly string[]) => {
      expect([program, ...args]).toEqual(['modprobe', '--', 'fou']);
      return await Promise.resolve(result);
    };
    await expect(loadFou({ run })).resolves.toBe(reason);
  });

  test('without modprobe, the reason says so', async () => {
    const run = async () =>
      await Promise.reject(new KernelError('modprobe', 'MISSING_COMMAND', 'modprobe is not installed'));
    await expect(loadFou({ run })).resolves.toBe('modprobe is not installed');
  });
});
