// Adds up jest's JSON reports and ends with the line `N passed, N failed`. A report that is missing is a failure.
import { readFileSync } from 'node:fs';

/** What is read of a report of jest --json. */
interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numRuntimeErrorTestSuites: number;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

let passed = 0;
let failed = 0;
for (const file of process.argv.slice(2)) {
  try {
    const report = JSON.parse(readFileSync(file, 'utf8')) as Report;
    passed += report.numPassedTests;
    failed += report.numFailedTests + report.numRuntimeErrorTestSuites;
  } catch (error) {
    say(`no report in ${file}: ${error instanceof Error ? error.message : String(error)}`);
    failed += 1;
  }
}
say(`${passed} passed, ${failed} failed`);
// NaN, from a report without a number, is neither.
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
