import type { Compared, PropertyCounts, SilentNode } from '../../fleet/fleet-replies.ts';
import { aligned } from '../output.ts';

/** Values of one property that are shown. */
const MOST_VALUES = 5;

/** One line for each node that differs. */
export function differingLines({ differing }: Pick<Compared, 'differing'>): string[] {
  return section('differ', aligned(differing.map(({ node, differences }) => [node, differences.join('; ')])));
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
