import type { IpFamily } from '../../src/base/ip.ts';
import type { NftPort } from '../../src/kernel/nftables/port/nft-port.ts';
import { compileExpression } from './nft-expression.ts';
import { NftRegisters } from './nft-registers.ts';
import { NftElements } from './nft-elements.ts';
import type { Ruleset, Step, TracedChain, TracedRule } from './ruleset.ts';

/** Compiles the table kube-proxy of a family, from what the kernel, or the one in memory, says of it. Throws on what it does not know. */
export async function rulesetOfTable(port: NftPort, family: IpFamily): Promise<Ruleset> {
  const sets = new Map<string, NftElements>();
  for (const definition of await port.sets(family)) {
    const elements = new NftElements(definition);
    await port.eachElement(family, definition.name, (element) => {
      elements.add(element);
    });
    sets.set(definition.name, elements);
  }
  const rules = Map.groupBy(await port.rules(family), ({ chain }) => chain);
  const chains = await port.chains(family);
  return new Map(
    chains.map(({ name, base }): readonly [string, TracedChain] => [
      name,
      { base, rules: (rules.get(name) ?? []).map(({ expressions }) => compileRule(expressions, sets)) },
    ]),
  );
}

type Expressions = Awaited<ReturnType<NftPort['rules']>>[number]['expressions'];

/** Each rule has registers of its own: what one leaves in them, the next cannot use. */
function compileRule(expressions: Expressions, sets: ReadonlyMap<string, NftElements>): TracedRule {
  const registers = new NftRegisters();
  const clear: Step = () => {
    registers.clear();
    return true;
  };
  return {
    text: expressions.map(({ name }) => name).join(' '),
    steps: [
      clear,
      ...expressions.map((expression) => {
        if (expression.name === 'other') throw new Error(`unknown expression ${expression.of}`);
        return compileExpression(expression, registers, sets);
      }),
    ],
  };
}
