import { describe, expect, test } from '@jest/globals';
import { createCommandRunner } from '../../../src/kernel/command-runner.ts';

describe('the command runner', () => {
  test('passes arguments and input as they are, without a shell', async () => {
    let started = 0;
    const runner = createCommandRunner({ onStart: () => started++ });
    const argument = '$(id); "x" *';
    const result = await runner.run('sh', ['-c', 'cat; printf %s "$1"; echo oops >&2; exit 3', 'sh', argument], {
      stdin: 'in ',
    });
    expect(result).toEqual({ status: 3, stdout: `in ${argument}`, stderr: 'oops\n' });
    expect(started).toBe(1);
  });

  test('says which program is missing', async () => {
    const runner = createCommandRunner();
    await expect(runner.run('no-such-program-here', [])).rejects.toMatchObject({
      code: 'MISSING_COMMAND',
      message: expect.stringContaining('no-such-program-here'),
    });
  });

  test('kills what takes too long', async () => {
    const runner = createCommandRunner();
    const before = Date.now();
    await expect(runner.run('sleep', ['30'], { deadlineMs: 100 })).rejects.toMatchObject({ code: 'TIMEOUT' });
    expect(Date.now() - before).toBeLessThan(10_000);
  });

  test('survives a program that does not read its input', async () => {
    const runner = createCommandRunner();
    expect(await runner.run('true', [], { stdin: 'x'.repeat(1_000_000) })).toMatchObject({ status: 0 });
  });
});
