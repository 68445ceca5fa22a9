import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { readScenarios } from '../../scenario/scenario-file.ts';

const steps = readScenarios().flatMap((scenario) => scenario.steps);
const explained = steps.flatMap(({ tables }) => tables.get('explain') ?? []);

/** What only a node of one IP family says, while scenarios have both: test/unit/reconcile/explain.test.ts has it. */
const NOT_IN_SCENARIOS = ['this node does not serve IPv6'];

/** The reasons in the table of docs/explain.md: a word in capitals stands for a name. */
function documentedReasons(): string[] {
  const page = readFileSync('docs/explain.md', 'utf8');
  const [, table = ''] = page.split('| reason why an endpoint is not used | meaning |');
  const rows = table.slice(0, table.indexOf('\n\n')).split('\n').slice(2);
  return rows.flatMap((row) => Array.from((row.split(' | ')[0] ?? '').matchAll(/`([^`]+)`/g), ([, text = '']) => text));
}

function pattern(reason: string): RegExp {
  const escaped = reason
    .replaceAll(/[()]/g, '\\$&')
    .replaceAll(/\b[A-Z]{4,}\b/g, (word) => (word === 'NAME' || word === 'ZONE' || word === 'NODE' ? '.+' : word));
  return new RegExp(`: ${escaped}`);
}

test('each reason in docs/explain.md why an endpoint is not used has a scenario', () => {
  const reasons = documentedReasons().filter(
    (reason) => !NOT_IN_SCENARIOS.includes(reason) && reason !== 'external...',
  );
  expect(reasons.length).toBeGreaterThanOrEqual(12);
  expect(reasons.filter((reason) => !explained.some((line) => pattern(reason).test(line)))).toEqual([]);
});

test.each([
  'it has no port that can be served',
  'it has no address that this node can serve',
  'no EndpointSlice belongs to it; check its selector',
  'its slices have no endpoints; is it scaled to 0?',
  'no port of slice .* of the Service: it has "',
  'no port of slice .* of the Service: it has none',
  'its only endpoint is not used: ',
  'none of its 2 endpoints is used: ',
  'no endpoint is used at .* its slices have none of this IP family',
  'TCP .* belongs to default/web',
])('a Service that does not answer: "%s" has a scenario', (verdict) => {
  const verdicts = explained.filter((line) => /^\S+ (?:does not answer|answers|is not as)/.test(line));
  expect(verdicts.filter((line) => new RegExp(verdict).test(line))).not.toEqual([]);
});

test('each warning about a part of a Service has a scenario in which explain says it', () => {
  const reasons = (step: (typeof steps)[number]): readonly string[] =>
    (step.tables.get('warnings') ?? []).filter((reason) => /^[a-z]+(?:-[a-z]+)+$/.test(reason));
  const known = new Set(steps.flatMap(reasons));
  const noted = steps.filter(({ tables }) => tables.get('explain')?.some((line) => line.includes(' note: ')));
  const said = new Set(noted.flatMap(reasons));
  expect(known.size).toBeGreaterThan(9);
  expect([...known].filter((reason) => !said.has(reason))).toEqual([]);
});
