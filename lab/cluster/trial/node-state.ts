import type { TrialContext } from './context.ts';
import type { OurPods } from './our-pods.ts';

/** Everything that the daemon writes, as the tools read it. */
const READ = [
  'ipvsadm -Sn',
  'ipset save',
  'iptables-save',
  'ip6tables-save',
  'ip -o addr show dev kube-ipvs0',
  'ip route show table local dev kube-ipvs0',
].join('; ');

/** The lines of the state, without what differs from one reading to the next: counters, comments, seeds of hash tables. */
export function comparableLines(text: string): readonly string[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.replace(/ \[\d+:\d+\]$/, '').replace(/ initval 0x\w+/, ''))
    .toSorted();
}

/** Lines that only one of both has: `- ` the first, `+ ` the second. */
export function differences(before: readonly string[], after: readonly string[]): readonly string[] {
  const count = (lines: readonly string[]): Map<string, number> =>
    lines.reduce((counts, line) => counts.set(line, (counts.get(line) ?? 0) + 1), new Map<string, number>());
  const [first, second] = [count(before), count(after)];
  const all = [...new Set([...before, ...after])].toSorted();
  return all.flatMap((line) => {
    const more = (second.get(line) ?? 0) - (first.get(line) ?? 0);
    return more === 0 ? [] : [`${more < 0 ? '-' : '+'} ${line}`];
  });
}

/** Checks that the state of every node is that which our Pods establish when they start. */
export async function checkFreshStart(context: TrialContext, ours: OurPods): Promise<void> {
  context.step('all of ours start afresh, to compare the state of the nodes');
  const before = await readNodes(context);
  await ours.replaceAll();
  // The Pods are ready before their iptables rules are verified.
  await context.wait(5);
  checkSame(context, before, await readNodes(context), 'equal those of a fresh start');
}

/** The lines of the state of each node, in the order of the nodes. */
export async function readNodes(context: TrialContext): Promise<readonly (readonly string[])[]> {
  return Promise.all(context.state.nodes.map(async ({ name }) => comparableLines(await context.node(name, READ))));
}

/** Checks that no node's lines differ, and prints those that do. */
export function checkSame(
  context: TrialContext,
  before: readonly (readonly string[])[],
  after: readonly (readonly string[])[],
  claim: string,
): void {
  for (const [index, { name }] of context.state.nodes.entries()) {
    const [old = [], fresh = []] = [before[index], after[index]];
    const different = differences(old, fresh);
    for (const line of different) context.say(`  ${name}: ${line}`);
    context.check(`the ${old.length} lines of state of ${name} ${claim}`, different.length === 0);
  }
}
