import { XMLParser } from 'fast-xml-parser';

export type Outcome = 'passed' | 'failed' | 'skipped';

/** What came out of one spec. */
export interface SpecResult {
  /** Its full name, without the suffix of labels: `[sig-network] Services should ...`. */
  readonly spec: string;
  readonly outcome: Outcome;
  readonly seconds: number;
  /** Why it failed or skipped itself, in the suite's words; '' if it passed. */
  readonly message: string;
}

interface Mishap {
  readonly message?: string;
}

interface TestCase {
  readonly name: string;
  readonly time: string;
  readonly status: string;
  readonly skipped?: Mishap;
  readonly failure?: Mishap;
  readonly error?: Mishap;
}

interface Report {
  readonly testsuites?: { readonly testsuite?: readonly { readonly testcase?: readonly TestCase[] }[] };
}

/** A message in the report may be a page long. */
const MESSAGE_LENGTH = 300;

const PARSER = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '',
  parseAttributeValue: false,
  // Numeric entities too, such as &#xA; in messages.
  htmlEntities: true,
  isArray: (name) => name === 'testsuite' || name === 'testcase',
  // Only attributes are read. Log text is by far the largest part of a report.
  stopNodes: ['*.system-err', '*.system-out'],
});

/** What ends with the suite, by its time limit or by a signal, has no result. */
const UNFINISHED = /^(A suite timeout occurred|Interrupted by )/;

/**
 * Reads a report that ginkgo wrote for the suite e2e.test. Specs that the selection excluded are left out, and those that
 * the end of the suite interrupted. Set-up and
 * tear-down of the suite appear only if they failed. Throws if the text is not such a report.
 */
export function parseJunit(xml: string): SpecResult[] {
  const suites = (PARSER.parse(xml) as Report).testsuites?.testsuite;
  if (suites === undefined) throw new Error('not a JUnit report: it has no test suites');
  return suites
    .flatMap((suite) => suite.testcase ?? [])
    .flatMap((testCase) => specResult(testCase) ?? [])
    .toSorted((a, b) => (a.spec < b.spec ? -1 : 1));
}

function specResult(testCase: TestCase): SpecResult | undefined {
  const spec = specName(testCase.name);
  const seconds = Math.round(Number(testCase.time) * 10) / 10;
  const mishap = testCase.failure ?? testCase.error;
  if (mishap !== undefined) {
    if (testCase.status === 'interrupted' || UNFINISHED.test(mishap.message ?? '')) return undefined;
    return { spec, outcome: 'failed', seconds, message: shortMessage(mishap.message || testCase.status) };
  }
  if (testCase.skipped !== undefined) {
    const [, reason] = /^skipped - (.*)$/s.exec(testCase.skipped.message ?? '') ?? [];
    return reason === undefined ? undefined : { spec, outcome: 'skipped', seconds, message: shortMessage(reason) };
  }
  return testCase.name.startsWith('[It] ') ? { spec, outcome: 'passed', seconds, message: '' } : undefined;
}

/** Ginkgo writes `[It] NAME [label, label]`; labels have no brackets of their own. */
function specName(name: string): string {
  return name
    .replace(/^\[It\] /, '')
    .replace(/ \[sig-[^\]]*\]$/, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
}

/** In one line, without the folders of the machine that ran it. The beginning and the end of a long one say most. */
function shortMessage(message: string): string {
  const line = message
    .replaceAll(/(?<![\w:/])(?:\/[\w.@+-]+)+\/(?=\w)/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
  const half = MESSAGE_LENGTH / 2;
  return line.length <= MESSAGE_LENGTH ? line : `${line.slice(0, half)} ... ${line.slice(-half)}`;
}
