import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';

/** Instead of make: says what it was asked for, and leaves the reports that the real targets leave. */
const MAKE = `#!/usr/bin/env bash
target=
for word in "$@"; do
  case $word in
    REPORTS=*) reports=\${word#REPORTS=} ;;
    MODE=*) mode=\${word#MODE=} ;;
    -* | *=*) ;;
    judge-build) ;;
    *) target=$word ;;
  esac
done
report() { echo "{\\"numPassedTests\\":$2,\\"numFailedTests\\":$3,\\"numRuntimeErrorTestSuites\\":0}" >"build/test/$1.json"; }
mkdir -p build/test/reports
case $target in
  bench-guard) exit "\${GUARD:-0}" ;;
  demo) exit "\${DEMO:-0}" ;;
  soak) exit "\${SOAK:-0}" ;;
  smoke-possible) echo "$POSSIBLE" ;;
  smoke-build)
    echo "words of the build"
    exit "\${BUILD:-0}"
    ;;
  test)
    if [ -n "\${NO_TEST_REPORT:-}" ]; then exit 2; fi
    report reports/host 3 0
    report reports/kernel-faults 4 0
    report reports/traffic-matrix 2 "\${TEST_FAILED:-0}"
    if [ -n "\${TEST_FAILED:-}" ]; then exit 2; fi
    ;;
  judge)
    if [ -n "\${JUDGE_CRASHED:-}" ]; then exit 2; fi
    report "judge-$mode" $((1 - \${JUDGE_FAILED:-0})) "\${JUDGE_FAILED:-0}"
    ;;
  smoke)
    if [ -n "\${SMOKE_CRASHED:-}" ]; then exit 2; fi
    report cluster $((12 - \${SMOKE_FAILED:-0})) "\${SMOKE_FAILED:-0}"
    ;;
  total) node scripts/count.ts $reports ;;
esac
`;

/** The real .ci/run, and its targets replaced by these. */
describe('.ci/run', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'ci run-'));

  beforeAll(() => {
    for (const file of ['.ci/run', 'scripts/count.ts', 'scripts/idle.sh']) cpSync(file, path.join(folder, file));
    mkdirSync(path.join(folder, 'bin'));
    writeFileSync(path.join(folder, 'bin/make'), MAKE);
    chmodSync(path.join(folder, 'bin/make'), 0o755);
  });
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  function run(env: Readonly<Record<string, string>>): { status: number | null; output: string; last: string } {
    rmSync(path.join(folder, 'build'), { recursive: true, force: true });
    const searched = `${folder}/bin:${path.dirname(process.execPath)}:${process.env['PATH'] ?? ''}`;
    const { status, stdout } = spawnSync(path.join(folder, '.ci/run'), {
      env: { ...process.env, PATH: searched, POSSIBLE: 'yes', ...env },
      encoding: 'utf8',
    });
    return { status, output: stdout, last: stdout.trimEnd().split('\n').at(-1) ?? '' };
  }

  test('counts the smoke test of the cluster and the comparison with upstream with all others', () => {
    expect(run({})).toMatchObject({ status: 0, last: '24 passed, 0 failed' });
  });

  test('where Go is not there, says so and counts nothing for it', () => {
    const { status, output, last } = run({ POSSIBLE: 'no: it needs Go' });
    expect({ status, last }).toEqual({ status: 0, last: '9 passed, 0 failed' });
    expect(output).toContain('the smoke test of a cluster did not run and is not counted: it needs Go\n');
    expect(output).toContain("kube-proxy's own code did not run and is not counted: it needs Go\n");
  });

  test('a build of Kubernetes that fails is one failure, with its own words', () => {
    const { status, output, last } = run({ BUILD: '1' });
    expect({ status, last }).toEqual({ status: 1, last: '9 passed, 1 failed' });
    expect(output).toContain('words of the build\n');
    expect(output).toContain('its build ended with status 1');
  });

  test('where Kubernetes is not built in time, says so and counts nothing for it', () => {
    const { status, output, last } = run({ BUILD: '124' });
    expect({ status, last }).toEqual({ status: 0, last: '9 passed, 0 failed' });
    expect(output).toContain('did not run and is not counted: this machine is too slow');
  });

  test.each<[string, Readonly<Record<string, string>>, string]>([
    ['a spec fails', { SMOKE_FAILED: '2' }, '22 passed, 2 failed'],
    ['the smoke test leaves no report', { SMOKE_CRASHED: '1' }, '12 passed, 1 failed'],
    ['something differs from kube-proxy', { JUDGE_FAILED: '1' }, '21 passed, 3 failed'],
    ['the comparison leaves no report', { JUDGE_CRASHED: '1' }, '21 passed, 3 failed'],
    ['a test fails; the smoke test runs all the same', { TEST_FAILED: '1' }, '24 passed, 1 failed'],
    ['the tests leave no report', { NO_TEST_REPORT: '1' }, '15 passed, 1 failed'],
    ['the bench fails', { GUARD: '1' }, '24 passed, 0 failed'],
    ['a check of the demo fails', { DEMO: '1' }, '24 passed, 0 failed'],
    ['the soak does not hold', { SOAK: '1' }, '24 passed, 0 failed'],
  ])('fails if %s', (_, env, totals) => {
    const { status, last } = run(env);
    expect(last).toBe(totals);
    expect(status).not.toBe(0);
  });
});
