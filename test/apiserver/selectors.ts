import { isRecord } from './json-object.ts';
import type { JsonObject } from './json-object.ts';
import { badRequest } from './status.ts';

export type Matcher = (object: JsonObject) => boolean;

const SET_TERM = /^([^\s!=,()]+)\s+(in|notin)\s+\(([^()]*)\)$/;
const EQUALITY_TERM = /^([^\s!=,()]+)\s*(==|=|!=)\s*([^\s!=,()]*)$/;
const EXISTS_TERM = /^(!?)\s*([^\s!=,()]+)$/;

/** Splits a selector at commas outside of parentheses. */
function terms(text: string): readonly string[] {
  return text === '' ? [] : text.split(/,(?![^(]*\))/).map((term) => term.trim());
}

function labelTerm(term: string): Matcher {
  const set = SET_TERM.exec(term);
  if (set !== null) {
    const [, key = '', operator, list = ''] = set;
    const values = list.split(',').map((value) => value.trim());
    return ({ metadata: { labels } }) => {
      const value = labels?.[key];
      return operator === 'in'
        ? value !== undefined && values.includes(value)
        : value === undefined || !values.includes(value);
    };
  }
  const equality = EQUALITY_TERM.exec(term);
  if (equality !== null) {
    const [, key = '', operator, wanted] = equality;
    return ({ metadata: { labels } }) => (labels?.[key] === wanted) === (operator !== '!=');
  }
  const exists = EXISTS_TERM.exec(term);
  if (exists === null) throw badRequest(`unable to parse requirement: ${term}`);
  const [, not, key = ''] = exists;
  return ({ metadata: { labels } }) => Object.hasOwn(labels ?? {}, key) === (not === '');
}

export function labelMatcher(text: string): Matcher {
  const matchers = terms(text).map(labelTerm);
  return (object) => matchers.every((matches) => matches(object));
}

function fieldOf(object: JsonObject, path: string): string {
  let value: unknown = object;
  for (const name of path.split('.')) value = isRecord(value) ? value[name] : undefined;
  return typeof value === 'string' ? value : '';
}

/** Like the real server, supports only fields that the resource declares as selectable. */
export function fieldMatcher(text: string, supported: ReadonlySet<string>): Matcher {
  const matchers = terms(text).map((term): Matcher => {
    const parts = EQUALITY_TERM.exec(term);
    if (parts === null) throw badRequest(`invalid selector: '${term}'; can't understand '${term}'`);
    const [, field = '', operator, wanted] = parts;
    if (!supported.has(field)) throw badRequest(`field label not supported: ${field}`);
    return (object) => (fieldOf(object, field) === wanted) === (operator !== '!=');
  });
  return (object) => matchers.every((matches) => matches(object));
}
