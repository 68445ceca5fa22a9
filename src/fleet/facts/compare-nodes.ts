import { compareText } from '../../base/text/compare-text.ts';
import { firstFew } from '../../base/text/first-few.ts';
import type { Compared, DifferingNode, PropertyCounts } from '../fleet-replies.ts';
import type { Facts, ListItem } from './facts.ts';

/**
 * Compares the nodes with what most of them have. The result does not depend on the order of the nodes: of values that
 * equally many nodes have, the first by name counts as that of most.
 */
export function compareNodes(nodes: readonly Facts[]): Compared {
  const properties = propertyCounts(nodes);
  const usual = new Map(properties.map(({ property, values }) => [property, values[0]?.value ?? '']));
  const usualLists = usualListsOf(nodes);
  const differing = nodes
    .toSorted((a, b) => compareText(a.node, b.node))
    .map((facts): DifferingNode => ({
      node: facts.node,
      differences: [
        ...facts.faults,
        ...Array.from(facts.properties).flatMap(([property, value]) =>
          value === usual.get(property) ? [] : [`${property} ${value} (most: ${usual.get(property)})`],
        ),
        ...Array.from(usualLists).flatMap(([name, items]) => listDifference(name, facts.lists.get(name) ?? [], items)),
      ],
    }))
    .filter(({ differences }) => differences.length > 0);
  return { properties, differing };
}

function propertyCounts(nodes: readonly Facts[]): PropertyCounts[] {
  const counts = new Map<string, Map<string, number>>();
  for (const { properties } of nodes) {
    for (const [property, value] of properties) {
      const values = counts.get(property) ?? new Map<string, number>();
      counts.set(property, values.set(value, (values.get(value) ?? 0) + 1));
    }
  }
  return Array.from(counts, ([property, values]) => ({
    property,
    values: Array.from(values, ([value, many]) => ({ value, nodes: many })).toSorted(
      (a, b) => b.nodes - a.nodes || compareText(a.value, b.value),
    ),
  })).toSorted((a, b) => compareText(a.property, b.property));
}

/** Returns the items that more than half of the nodes have, by list. */
function usualListsOf(nodes: readonly Facts[]): ReadonlyMap<string, ReadonlySet<string>> {
  const counts = new Map<string, Map<string, number>>();
  for (const { lists } of nodes) {
    for (const [name, items] of lists) {
      const known = counts.get(name) ?? new Map<string, number>();
      counts.set(name, known);
      for (const item of listedOf(items)) known.set(item, (known.get(item) ?? 0) + 1);
    }
  }
  return new Map(
    Array.from(counts, ([name, items]): [string, ReadonlySet<string>] => [
      name,
      new Set(Array.from(items).flatMap(([item, many]) => (many * 2 > nodes.length ? [item] : []))),
    ]).toSorted(([a], [b]) => compareText(a, b)),
  );
}

function listedOf(items: readonly ListItem[]): ReadonlySet<string> {
  return new Set(items.filter(({ listed }) => listed).map(({ item }) => item));
}

function listDifference(name: string, items: readonly ListItem[], usual: ReadonlySet<string>): string[] {
  const own = listedOf(items);
  const why = new Map(items.map((each) => [each.item, each.why]));
  const lacking = without(usual, own).map((item) => {
    const reason = why.get(item);
    return reason === undefined ? item : `${item} (${reason})`;
  });
  const more = without(own, usual);
  return [
    ...(lacking.length === 0 ? [] : [`${name}: without ${firstFew(lacking).join(', ')}`]),
    ...(more.length === 0 ? [] : [`${name}: also ${firstFew(more).join(', ')}`]),
  ];
}

function without(items: ReadonlySet<string>, others: ReadonlySet<string>): string[] {
  return [...items].filter((item) => !others.has(item)).toSorted(compareText);
}
