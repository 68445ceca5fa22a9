import { describe, expect, test } from '@jest/globals';
import { parseJunit } from '../../cluster/e2e/junit.ts';

/** A report in ginkgo's form. */
function report(cases: string): string {
  return `<?xml version="1.0" encoding="UTF-8"?>
  <testsuites tests="1"><testsuite name="Kubernetes e2e suite" time="6.7">
    <properties><property name="SuiteSucceeded" value="true"></property></properties>
    ${cases}
  </testsuite></testsuites>`;
}

function spec(name: string, inside = '', status = 'passed'): string {
  return `<testcase name="${name}" classname="Kubernetes e2e suite" status="${status}" time="12.3456">${inside}</testcase>`;
}

const HEADLESS = '[It] [sig-network] Services should implement headless [sig-network, Conformance]';

describe('a JUnit report of ginkgo', () => {
  test('a passed spec: its name without type and labels, its seconds', () => {
    expect(parseJunit(report(spec(HEADLESS, '<system-err>&gt; Enter [It] &lt;x&gt;</system-err>')))).toEqual([
      { spec: '[sig-network] Services should implement headless', outcome: 'passed', seconds: 12.3, message: '' },
    ]);
  });

  test('tags that belong to the name stay', () => {
    const name = '[It] [sig-network] Services should serve [LinuxOnly] [Conformance] [sig-network, Conformance]';
    expect(parseJunit(report(spec(name)))[0]?.spec).toBe(
      '[sig-network] Services should serve [LinuxOnly] [Conformance]',
    );
  });

  test.each(['failure', 'error'])('a spec with <%s> has failed; its message is one line', (element) => {
    const inside = `<${element} message="dial tcp:&#xA;  i/o &#34;timeout&#34;" type="failed">a stack</${element}>`;
    expect(parseJunit(report(spec(HEADLESS, inside, 'failed')))).toMatchObject([
      { outcome: 'failed', message: 'dial tcp: i/o "timeout"' },
    ]);
  });

  test.each([
    ['timedout', 'failure', 'A suite timeout occurred'],
    ['interrupted', 'error', 'Interrupted by User'],
  ])('a spec that the end of the suite interrupted (%s) has no result', (status, element, message) => {
    expect(parseJunit(report(spec(HEADLESS, `<${element} message="${message}"></${element}>`, status)))).toEqual([]);
  });

  test('a spec that was too slow has failed', () => {
    const inside = '<failure message="A spec timeout occurred" type="timedout"></failure>';
    expect(parseJunit(report(spec(HEADLESS, inside, 'timedout')))).toMatchObject([{ outcome: 'failed' }]);
  });

  test('a failure without a message has the status as its message', () => {
    const inside = '<failure message="" type="timedout"></failure>';
    expect(parseJunit(report(spec(HEADLESS, inside, 'timedout')))).toMatchObject([{ message: 'timedout' }]);
  });

  function messageOf(message: string): string | undefined {
    return parseJunit(report(spec(HEADLESS, `<failure message="${message}"></failure>`, 'failed')))[0]?.message;
  }

  test('of a long message, the beginning and the end are kept', () => {
    expect(messageOf(`${'a'.repeat(5000)}${'b'.repeat(5000)}`)).toBe(`${'a'.repeat(150)} ... ${'b'.repeat(150)}`);
  });

  test('a message does not name the folders of the machine', () => {
    expect(messageOf('running /home/me/bin/kubectl --server=https://1.2.3.4:6443/api --kubeconfig=/tmp/x/admin')).toBe(
      'running kubectl --server=https://1.2.3.4:6443/api --kubeconfig=admin',
    );
  });

  test('a spec that skipped itself has its reason; an excluded one is left out', () => {
    const self = spec(HEADLESS, '<skipped message="skipped - Requires at least 3 nodes"></skipped>', 'skipped');
    const excluded = spec('[It] [sig-apps] Job [sig-apps]', '<skipped message="skipped"></skipped>', 'skipped');
    expect(parseJunit(report(self + excluded))).toMatchObject([
      {
        spec: '[sig-network] Services should implement headless',
        outcome: 'skipped',
        message: 'Requires at least 3 nodes',
      },
    ]);
  });

  test('set-up of the suite appears only if it failed', () => {
    const failed = spec('[SynchronizedBeforeSuite]', '<failure message="no nodes" type="failed"></failure>', 'failed');
    expect(parseJunit(report(spec('[SynchronizedAfterSuite]') + failed))).toMatchObject([
      { spec: '[SynchronizedBeforeSuite]', outcome: 'failed', message: 'no nodes' },
    ]);
  });

  test('results are in the order of their names', () => {
    const names = parseJunit(report(spec('[It] b') + spec('[It] a'))).map((result) => result.spec);
    expect(names).toEqual(['a', 'b']);
  });

  test('another text is an error', () => {
    expect(() => parseJunit('<html></html>')).toThrow('not a JUnit report');
  });
});
