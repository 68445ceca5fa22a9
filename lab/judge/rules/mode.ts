import { type VirtualServerKey, virtualServerKey } from '../../../src/state/virtual-server.ts';
import type { ForwardedPort } from '../../../src/userspace/engine-update.ts';
import { type RulesPlane, iptablesPlane, nftablesPlane, userspacePlane } from '../../../test/fake-kernel/planes.ts';
import type { Case } from '../case/case.ts';
import type { JudgedMode } from '../compare.ts';
import { OurRun, nodeAddressesOf } from '../our-run.ts';
import { rulesetOfIptables } from '../../../test/trace/iptables-text.ts';
import { rulesetOfNft } from '../../../test/trace/nft-text.ts';
import type { Ruleset } from '../../../test/trace/ruleset.ts';
import { IPTABLES_DIFFERENCES, NFTABLES_DIFFERENCES, USERSPACE_DIFFERENCES } from './differences.ts';
import { Fates } from './fates.ts';
import { type IntendedChange, explain } from './intended.ts';
import { probesAt } from './probes.ts';

/** The rules of each family: upstream's as text (see upstream/rules.go), ours as the tracer has them. */
interface Rules {
  readonly IPv4: string | Ruleset;
  readonly IPv6: string | Ruleset;
  /** What our engine forwards, by virtualServerKey(). */
  readonly forwarded?: ReadonlyMap<VirtualServerKey, ForwardedPort>;
}

/** Judges a mode by what its rules do to packets. */
function rulesMode(
  plane: () => RulesPlane,
  compile: (text: string) => Ruleset,
  changes: readonly IntendedChange[],
): JudgedMode<Rules> {
  const compiled = (rules: string | Ruleset): Ruleset => (typeof rules === 'string' ? compile(rules) : rules);
  return {
    playOurs: (given) => play(given, plane()),
    factsOf: ({ IPv4, IPv6, forwarded }, given, step) =>
      new Fates(
        (family) => compiled(family === 4 ? IPv4 : IPv6),
        probesAt(given, step),
        (id) => forwarded?.get(virtualServerKey(id)),
      ),
    explain: (mismatch) => explain(changes, mismatch),
  };
}

export const nftablesMode = rulesMode(nftablesPlane, rulesetOfNft, NFTABLES_DIFFERENCES);

export const iptablesMode = rulesMode(iptablesPlane, rulesetOfIptables, IPTABLES_DIFFERENCES);

/** Beside kube-proxy in nftables mode, whose tables lead to our engine: it has no such mode any more. */
export const userspaceMode = rulesMode(userspacePlane, rulesetOfNft, USERSPACE_DIFFERENCES);

async function play(given: Case, { kernel, node, rulesetOf, forwarded }: RulesPlane): Promise<readonly Rules[]> {
  node.setNodeAddresses(nodeAddressesOf(given));
  await kernel.prepare();
  const ours = new OurRun(given, kernel);
  const states: Rules[] = [];
  for (const step of given.steps) {
    await ours.take(step);
    states.push({
      IPv4: await rulesetOf(4),
      IPv6: await rulesetOf(6),
      forwarded: await forwardedBy(kernel, forwarded),
    });
  }
  await ours.stop();
  return states;
}

async function forwardedBy(
  kernel: RulesPlane['kernel'],
  portOf: RulesPlane['forwarded'] = () => undefined,
): Promise<ReadonlyMap<VirtualServerKey, ForwardedPort>> {
  const ports = new Map<VirtualServerKey, ForwardedPort>();
  for (const server of await kernel.getVirtualServers()) {
    const port = portOf(server);
    if (port !== undefined) ports.set(virtualServerKey(server), port);
  }
  return ports;
}
