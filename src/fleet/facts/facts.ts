/** What one node answers, as far as nodes are compared by it. */
export interface Facts {
  readonly node: string;
  /** What is wrong with this node, whatever the others have; in clauses. */
  readonly faults: readonly string[];
  /** What all nodes should have in common, by its name. Of an older version, properties are missing. */
  readonly properties: ReadonlyMap<string, string>;
  /** Lists that all nodes should have in common, by name. A node that has no such list has an empty one. */
  readonly lists: ReadonlyMap<string, readonly ListItem[]>;
}

export interface ListItem {
  readonly item: string;
  /** Whether it is in the list; if not, `why` says why. */
  readonly listed: boolean;
  readonly why?: string;
}
