// Adds up the JSON reports of jest and prints the line `N passed, N failed`. A missing report is a failure.
import { readFileSync } from 'node:fs';

/** The fields that are read from a report of jest --json. */
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
// A report without a number makes a sum NaN: neither comparison is true then.
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
