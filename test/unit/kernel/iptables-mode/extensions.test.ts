import { describe, expect, test } from '@jest/globals';
import { requireExtensions } from '../../../../src/kernel/iptables-mode/extensions.ts';
import { FakeIptables } from '../../../fake-kernel/fake-iptables.ts';
import { iptablesPlane } from '../../../fake-kernel/planes.ts';
import { startOn } from '../../../support/on-plane.ts';
import { refuseOnce } from '../../../support/refuse-once.ts';
import { listed, service, slice } from '../../../support/objects.ts';

const WARNING = (name: string): string =>
  `Warning: Extension ${name} revision 0 not supported, missing kernel module?\n`;

/** Programs that warn of extensions, and a kernel that refuses rules with some of them. */
function programsThat(warnings: string, refused = /^$/): FakeIptables {
  const programs = new FakeIptables();
  programs.warnings = warnings;
  programs.refuse = (section) => (refused.test(section) ? 'line 4 failed' : undefined);
  return programs;
}

describe('the extensions of iptables mode', () => {
  test('nothing is written if iptables-restore does not warn', async () => {
    const programs = programsThat('Warning: something else\n');
    await requireExtensions(programs, 4);
    expect(programs.writes).toBe(0);
  });

  test('an extension that the kernel lacks is named, with its module', async () => {
    const programs = programsThat(WARNING('statistic'), /statistic/);
    await expect(requireExtensions(programs, 6)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: 'this kernel lacks the iptables extension statistic for IPv6: load the module xt_statistic',
    });
  });

  test('so is one that iptables-restore refuses when it reads the rule', async () => {
    const programs = programsThat('', /addrtype/);
    programs.testFailure = "Couldn't load match `addrtype':No such file or directory";
    await expect(requireExtensions(programs, 4)).rejects.toThrow('extension addrtype for IPv4');
  });

  test('a rule that can be written in spite of the warning is removed again, and nothing is told', async () => {
    const programs = programsThat(WARNING('mark') + WARNING('MARK'));
    expect(await requireExtensions(programs, 4)).toEqual([]);
    expect(programs.writes).toBe(4);
    expect(await programs.read(4)).not.toContain('KUBE-');
  });

  test('what only some Services need is returned', async () => {
    const programs = programsThat(WARNING('recent') + WARNING('sctp'), /recent|sctp/);
    expect(await requireExtensions(programs, 4)).toEqual([
      {
        services: 'Services with session affinity',
        text: 'this kernel lacks the iptables extension recent for IPv4: load the module xt_recent',
      },
      {
        services: 'Services with SCTP ports',
        text: 'this kernel lacks the iptables extension sctp for IPv4: load the module xt_sctp',
      },
    ]);
  });

  test('Services that need it are refused without a write of their own, and served when the module is loaded', async () => {
    const programs = programsThat(WARNING('recent'), /recent/);
    const { kernel, run } = await startOn(iptablesPlane(programs));
    await kernel.probeRules(4);
    const names = Array.from({ length: 200 }, (_, n) => `sticky-${n}`);
    const sticky = names.map((name, n) => service(name, `10.97.0.${n}`, { sessionAffinity: 'ClientIP' }));
    const slices = ['web', ...names].map((name, n) => slice(name, [`10.244.0.${n}`]));
    await run.take(...listed([service('web', '10.96.0.1'), ...sticky], slices));
    expect(await kernel.getVirtualServers()).toHaveLength(1);
    programs.writes = 0;
    await run.pass(30_000);
    await run.pass(30_000);
    // Two for each time that it is tried whether the kernel has it now.
    expect(programs.writes).toBeLessThanOrEqual(10);
    programs.warnings = '';
    programs.refuse = () => undefined;
    await run.pass(30_000);
    await run.pass(30_000);
    expect(await kernel.getVirtualServers()).toHaveLength(201);
    await run.reconciler.stop();
  });

  test('a rule that cannot be written for a moment says nothing about the extension', async () => {
    const programs = programsThat(WARNING('MASQUERADE'));
    const { kernel } = await startOn(iptablesPlane(programs));
    const { writes } = refuseOnce(programs, 1);
    await expect(kernel.probeRules(4)).rejects.toMatchObject({ code: 'LOCKED' });
    expect(writes()).toBe(1);
    expect(await kernel.getSets()).not.toEqual([]);
  });

  test('after a probe that failed for a moment, the next full check finds what the kernel lacks', async () => {
    const programs = programsThat('', /recent/);
    programs.testFailure = 'Another app is currently holding the xtables lock';
    const { kernel, run } = await startOn(iptablesPlane(programs));
    await expect(kernel.probeRules(4)).rejects.toThrow('xtables lock');
    programs.testFailure = undefined;
    programs.warnings = WARNING('recent');
    const sticky = service('sticky', '10.97.0.1', { sessionAffinity: 'ClientIP' });
    const slices = [slice('web', ['10.244.0.1']), slice('sticky', ['10.244.0.2'])];
    await run.take(...listed([service('web', '10.96.0.1'), sticky], slices));
    expect(run.reports.at(-1)?.failures[0]).toMatchObject({ code: 'UNSUPPORTED' });
    await run.reconciler.stop();
  });

  test('other failures of iptables-restore are passed on', async () => {
    const programs = programsThat('');
    programs.testFailure = 'Another app is currently holding the xtables lock';
    await expect(requireExtensions(programs, 4)).rejects.toThrow('xtables lock');
  });
});
