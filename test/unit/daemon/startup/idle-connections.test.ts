import { describe, expect, test } from '@jest/globals';
import { noteIdleTimeout } from '../../../../src/daemon/startup/idle-connections.ts';
import { setUpKernel } from '../../../../src/daemon/startup/kernel-setup.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { configOf } from '../../../support/config.ts';
import { TestLog } from '../../../support/reconciling.ts';

const KEEPALIVE = 'net/ipv4/tcp_keepalive_time';

describe('idle TCP connections', () => {
  test.each([
    ["the kernel's defaults are a line for who looks", 900, '7200', 'info'],
    ['a timeout that was raised, but not enough, is a warning', 3600, '7200', 'warn'],
    ['a keepalive that was lowered, but not enough, is a warning', 900, '1800', 'warn'],
    ['a timeout that was lowered is a warning', 60, '7200', 'warn'],
    ['the keepalive must come before the timeout, not with it', 1800, '1800', 'warn'],
    ['a timeout above the keepalive is silent', 7260, '7200', undefined],
    ['a keepalive below the timeout is silent', 900, '300', undefined],
    ['a kernel that does not tell its keepalive is silent', 900, undefined, undefined],
  ] as const)('%s', async (_what, tcp, keepalive, level) => {
    const kernel = new FakeKernel();
    await kernel.setIpvsTimeouts({ tcp, tcpFin: 0, udp: 0 });
    if (keepalive === undefined) kernel.sysctls.delete(KEEPALIVE);
    else kernel.sysctls.set(KEEPALIVE, keepalive);
    const log = new TestLog();
    await noteIdleTimeout(kernel, log);
    expect(log.lines.map((line) => line.split(':')[0])).toEqual(level === undefined ? [] : [level]);
    if (level === undefined) return;
    expect(log.lines[0]).toContain(`idle for ${tcp} s`);
    expect(log.lines[0]).toContain(`after ${keepalive} s`);
    expect(log.lines[0]).toContain('set --ipvs-tcp-timeout above');
  });

  test('without TCP support in IPVS, no idle timeout is logged', async () => {
    const log = new TestLog();
    const kernel = new FakeKernel();
    await noteIdleTimeout(
      {
        getSysctl: (key) => kernel.getSysctl(key),
        getIpvsTimeouts: () => Promise.resolve({ tcp: 0, tcpFin: 0, udp: 0 }),
      },
      log,
    );
    expect(log.lines).toEqual([]);
  });

  test('a kernel whose timeouts cannot be read neither fails the start nor causes a warning', async () => {
    const log = new TestLog();
    const kernel = new FakeKernel();
    kernel.failMethod('getIpvsTimeouts', 'EPERM');
    await noteIdleTimeout(kernel, log);
    expect(log.lines.filter((line) => !line.startsWith('debug'))).toEqual([]);
  });

  test('the idle timeout is checked when the node is set up, after the configured timeouts were written', async () => {
    const said = async (...flags: readonly string[]): Promise<readonly string[]> => {
      const log = new TestLog();
      await setUpKernel(new FakeKernel(), configOf('--conntrack-max-per-core=0', ...flags), log);
      return log.lines.filter((line) => line.includes('keepalive'));
    };
    expect(await said()).toEqual([expect.stringMatching(/^info: TCP connections .* idle for 900 s/)]);
    expect(await said('--ipvs-tcp-timeout=30m')).toEqual([expect.stringMatching(/^warn: .* idle for 1800 s/)]);
    expect(await said('--ipvs-tcp-timeout=2h1m')).toEqual([]);
  });
});
