/** One requirement of a label selector. */
export interface LabelTerm {
  readonly key: string;
  /** The accepted values, or any. */
  readonly values: ReadonlySet<string> | 'any';
  /** Whether the term requires the opposite. An object without the label then matches, as in the API. */
  readonly negated: boolean;
}

/** A label selector, in the syntax of `kubectl get -l`. */
export interface LabelSelector {
  readonly text: string;
  readonly terms: readonly LabelTerm[];
}

const NAME = '[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?';
const KEY = `(?<key>(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?${NAME})`;
const ONLY_KEY = new RegExp(`^${KEY}$`);
const EXISTS = new RegExp(`^(?<not>!?)\\s*${KEY}$`);
const EQUALS = new RegExp(`^${KEY}\\s*(?<not>!?)==?\\s*(?<value>(?:${NAME})?)$`);
const IN = new RegExp(`^${KEY}\\s+(?<not>not)?in\\s*\\((?<values>[^()]*)\\)$`);
const VALUE = new RegExp(`^(?:${NAME})?$`);

export function isLabelKey(text: string): boolean {
  return ONLY_KEY.test(text);
}

export function isLabelValue(text: string): boolean {
  return VALUE.test(text);
}

/** Returns undefined if the text is not a valid selector. Like in the API, "" selects everything. */
export function parseLabelSelector(text: string): LabelSelector | undefined {
  // A comma within parentheses separates values, not terms.
  const parts = text.trim() === '' ? [] : text.split(/,(?![^()]*\))/).map((part) => part.trim());
  const terms = parts.map(parseTerm).filter((term) => term !== undefined);
  return terms.length === parts.length ? { text, terms } : undefined;
}

function parseTerm(text: string): LabelTerm | undefined {
  const groups = (EXISTS.exec(text) ?? EQUALS.exec(text) ?? IN.exec(text))?.groups;
  const key = groups?.['key'];
  if (groups === undefined || key === undefined) return undefined;
  const { value, values, not = '' } = groups;
  const negated = not !== '';
  if (value !== undefined) return { key, values: new Set([value]), negated };
  if (values === undefined) return { key, values: 'any', negated };
  const list = values.split(',').map((item) => item.trim());
  return list.every(isLabelValue) ? { key, values: new Set(list), negated } : undefined;
}

/** @param labels as the API sent them */
export function selects({ terms }: Pick<LabelSelector, 'terms'>, labels: Readonly<Record<string, unknown>>): boolean {
  return terms.every(({ key, values, negated }) => {
    const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
    const matches = typeof value === 'string' && (values === 'any' || values.has(value));
    return matches !== negated;
  });
}
