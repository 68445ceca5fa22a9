import type { IpFamily } from '../../../src/base/ip.ts';
import { iptablesKernelOf } from '../../../src/kernel/iptables-mode/iptables-kernel.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { NodeKernel } from '../../../src/kernel/linux/node-kernel.ts';
import { nftablesKernelOf } from '../../../src/kernel/nftables/nftables-kernel.ts';
import { FakeIptables } from '../../../test/fake-kernel/fake-iptables.ts';
import { FakeNftTable } from '../../../test/fake-kernel/fake-nft-table.ts';
import { TestLog } from '../../../test/support/reconciling.ts';
import type { Case } from '../case/case.ts';
import type { JudgedMode } from '../compare.ts';
import { OurRun, nodeAddressesOf } from '../our-run.ts';
import { rulesetOfIptables } from '../../../test/trace/iptables-text.ts';
import { rulesetOfTable } from '../../../test/trace/nft-table.ts';
import { rulesetOfNft } from '../../../test/trace/nft-text.ts';
import type { Ruleset } from '../../../test/trace/ruleset.ts';
import { IPTABLES_DIFFERENCES, NFTABLES_DIFFERENCES } from './differences.ts';
import { Fates } from './fates.ts';
import { type IntendedChange, explain } from './intended.ts';
import { probesAt } from './probes.ts';

/** The rules of each family: upstream's as text (see upstream/rules.go), ours as the tracer has them. */
interface Rules {
  readonly IPv4: string | Ruleset;
  readonly IPv6: string | Ruleset;
}

/** A kernel in memory, and how its rules are traced. */
interface OurKernel {
  readonly kernel: Kernel;
  readonly rulesetOf: (family: IpFamily) => Promise<Ruleset>;
}

/** Judges a mode by what its rules do to packets. */
function rulesMode(
  start: () => OurKernel,
  compile: (text: string) => Ruleset,
  changes: readonly IntendedChange[],
): JudgedMode<Rules> {
  const compiled = (rules: string | Ruleset): Ruleset => (typeof rules === 'string' ? compile(rules) : rules);
  return {
    playOurs: (given) => play(given, start()),
    factsOf: ({ IPv4, IPv6 }, given, step) =>
      new Fates((family) => compiled(family === 4 ? IPv4 : IPv6), probesAt(given, step)),
    explain: (mismatch) => explain(changes, mismatch),
  };
}

export const nftablesMode = rulesMode(
  () => {
    const table = new FakeNftTable();
    const kernel = nftablesKernelOf(new NodeKernel({ log: new TestLog() }), table);
    return { kernel, rulesetOf: (family) => rulesetOfTable(table, family) };
  },
  rulesetOfNft,
  NFTABLES_DIFFERENCES,
);

export const iptablesMode = rulesMode(
  () => {
    const programs = new FakeIptables();
    const kernel = iptablesKernelOf(new NodeKernel({ log: new TestLog() }), programs);
    return { kernel, rulesetOf: async (family) => rulesetOfIptables(await programs.read(family)) };
  },
  rulesetOfIptables,
  IPTABLES_DIFFERENCES,
);

async function play(given: Case, { kernel, rulesetOf }: OurKernel): Promise<readonly Rules[]> {
  Object.assign(kernel, {
    getNodeAddresses: () => Promise.resolve(nodeAddressesOf(given)),
    getUdpFlows: () => Promise.resolve([]),
  });
  await kernel.prepare();
  const ours = new OurRun(given, kernel);
  const states: Rules[] = [];
  for (const step of given.steps) {
    await ours.take(step);
    states.push({ IPv4: await rulesetOf(4), IPv6: await rulesetOf(6) });
  }
  await ours.stop();
  return states;
}
