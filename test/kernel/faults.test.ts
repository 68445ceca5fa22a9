import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, jest, test } from '@jest/globals';
import { runCommand } from '../bed/command.ts';

jest.setTimeout(4_000_000);

/**
 * In a separate process, which can be in a separate network namespace: the programs that it starts are then in it,
 * too.
 */
test('random faults: after one full check the kernel holds what the Services demand, and another writes nothing', async () => {
  const netns = `faults-${process.pid}`;
  await runCommand(['ip', 'netns', 'add', netns]);
  try {
    const argv = [
      'netns',
      'exec',
      netns,
      process.execPath,
      '--disable-warning=ExperimentalWarning',
      'test/faults/main.ts',
    ];
    const child = spawn('ip', argv, { stdio: ['ignore', 'inherit', 'pipe'] });
    let told = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      told += text;
      process.stderr.write(text);
    });
    const [status] = (await once(child, 'close')) as [number | null];
    expect(`${told}${status}`).toMatch(/ held, in .*\n0$/);
  } finally {
    await runCommand(['ip', 'netns', 'del', netns]);
  }
});
