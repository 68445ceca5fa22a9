import { describe, expect, test } from '@jest/globals';
import { requireExtensions } from '../../../../src/kernel/iptables-mode/extensions.ts';
import { FakeIptables } from '../../../fake-kernel/fake-iptables.ts';
import { TestLog } from '../../../support/reconciling.ts';

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
    await requireExtensions(programs, 4, new TestLog());
    expect(programs.writes).toBe(0);
  });

  test('an extension that the kernel lacks is named, with its module', async () => {
    const programs = programsThat(WARNING('statistic'), /statistic/);
    await expect(requireExtensions(programs, 6, new TestLog())).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: 'this kernel lacks the iptables extension statistic for IPv6: load the module xt_statistic',
    });
  });

  test('so is one that iptables-restore refuses when it reads the rule', async () => {
    const programs = programsThat('', /addrtype/);
    programs.testFailure = "Couldn't load match `addrtype':No such file or directory";
    await expect(requireExtensions(programs, 4, new TestLog())).rejects.toThrow('extension addrtype for IPv4');
  });

  test('a rule that can be written in spite of the warning is removed again, and nothing is told', async () => {
    const programs = programsThat(WARNING('mark') + WARNING('MARK'));
    const log = new TestLog();
    await requireExtensions(programs, 4, log);
    expect(programs.writes).toBe(4);
    expect(await programs.read(4)).not.toContain('KUBE-');
    expect(log.lines).toEqual([]);
  });

  test('without what only session affinity needs, the node serves all other Services', async () => {
    const log = new TestLog();
    await requireExtensions(programsThat(WARNING('recent'), /recent/), 4, log);
    expect(log.lines.join()).toContain(
      'load the module xt_recent. Until then, Services with session affinity do not work',
    );
  });

  test('other failures of iptables-restore are passed on', async () => {
    const programs = programsThat('');
    programs.testFailure = 'Another app is currently holding the xtables lock';
    await expect(requireExtensions(programs, 4, new TestLog())).rejects.toThrow('xtables lock');
  });
});
