import type { Port } from '../../../src/base/port.ts';
import { type IpFamily, familyOf } from '../../../src/base/ip.ts';
import type { Facts } from '../compare.ts';
import type { Ruleset } from '../../../test/trace/ruleset.ts';
import type { VirtualServerId } from '../../../src/state/virtual-server.ts';
import type { ForwardedPort } from '../../../src/userspace/engine-update.ts';
import { throughEngine } from '../../../test/trace/through-engine.ts';
import { trace } from '../../../test/trace/trace.ts';
import { fateText } from './fate-text.ts';
import type { Probe } from './probes.ts';

/** What becomes of each packet that is tried after a step. A packet is traced when its fate is first asked for. */
export class Fates implements Facts {
  readonly #rulesetOf: (family: IpFamily) => Ruleset;
  readonly #rulesets = new Map<IpFamily, Ruleset>();
  readonly #forwarded: (id: VirtualServerId) => ForwardedPort | undefined;
  readonly #probes: ReadonlyMap<string, Probe>;
  readonly #texts = new Map<string, string>();

  /**
   * @param rulesetOf is called when the first packet of a family is traced
   * @param forwarded what an engine does with what the rules lead to it
   */
  constructor(
    rulesetOf: (family: IpFamily) => Ruleset,
    probes: readonly Probe[],
    forwarded: (id: VirtualServerId) => ForwardedPort | undefined = () => undefined,
  ) {
    this.#rulesetOf = rulesetOf;
    this.#forwarded = forwarded;
    this.#probes = new Map(probes.map((probe) => [probe.fact, probe]));
  }

  keys(): Iterable<string> {
    return this.#probes.keys();
  }

  get(fact: string): string | undefined {
    const probe = this.#probes.get(fact);
    if (probe === undefined) return undefined;
    const text = this.#texts.get(fact) ?? this.#trace(probe);
    this.#texts.set(fact, text);
    return text;
  }

  #trace({ packet, node }: Probe): string {
    const family = familyOf(packet.destination);
    const ruleset = this.#rulesets.get(family) ?? this.#rulesetOf(family);
    this.#rulesets.set(family, ruleset);
    const { destination: address, port, protocol } = packet;
    return fateText(
      throughEngine(trace(ruleset, packet, node), this.#forwarded({ address, port: port as Port, protocol })),
    );
  }
}
