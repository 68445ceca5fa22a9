import type { Compared, DifferingNode, PropertyCounts, SilentNode } from '../../fleet/fleet-replies.ts';
import { aligned } from '../output.ts';

/** Values of one property that are shown. */
const MOST_VALUES = 5;
/** Nodes of one line that are named. */
const MOST_NAMES = 8;

export function differingLines({ differing }: Pick<Compared, 'differing'>): string[] {
  return section('differ', aligned(differing.map(({ node, differences }) => [node, differences.join('; ')])));
}

/** One line for all nodes that differ in the same way. */
export function groupedLines({ differing }: Pick<Compared, 'differing'>): string[] {
  const groups = Map.groupBy(differing, ({ differences }) => differences.join('\n'));
  const lines = Array.from(groups.values()).flatMap((nodes) => [
    ...aligned([[namesOf(nodes)]]),
    ...aligned(nodes[0]?.differences.map((difference) => [difference]) ?? [], 6),
  ]);
  return section('differ', lines);
}

function namesOf(nodes: readonly Pick<DifferingNode, 'node'>[]): string {
  const names = nodes.slice(0, MOST_NAMES).map(({ node }) => node);
  const more = nodes.length - names.length;
  return `${names.join(', ')}${more === 0 ? '' : ` and ${more} more`}:`;
}

export function silentLines(silent: readonly SilentNode[]): string[] {
  return section('do not answer', aligned(silent.map(({ node, why }) => [node, why])));
}

/** How many nodes have each value: "0.2.0 on 298 nodes, 0.1.0 on 2". */
export function propertyLines(properties: readonly PropertyCounts[]): string[] {
  const rows = properties.map(({ property, values }) => {
    const texts = values.slice(0, MOST_VALUES).map(({ value, nodes }) => `${value} (${nodes})`);
    const more = values.length - texts.length;
    return [property, [...texts, ...(more > 0 ? [`and ${more} more values`] : [])].join(', ')];
  });
  return section('what the nodes have', aligned(rows));
}

/** Returns the lines with a title, if there are any. */
export function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', `${title}:`, ...lines];
}
