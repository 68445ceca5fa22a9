import { expect, test } from '@jest/globals';
import { namespacedName } from '../../../src/base/service/names.ts';
import { differenceReply } from '../../../src/explain/difference/difference-reply.ts';

const NOTHING = { parts: [], more: 0, rules: [], settings: [], notes: [] };

test('a difference whose commands are not known is told and counts', () => {
  const found = { ...NOTHING, parts: [{ service: namespacedName('default', 'web'), commands: [] }] };
  expect(differenceReply('node-a', found, false)).toMatchObject({
    ok: false,
    operations: [],
    notes: [expect.stringContaining('default/web differs in something for which no command is known')],
    verdict: expect.stringContaining('differs from the plan in 1 object'),
  });
  expect(differenceReply('node-a', NOTHING, false)).toMatchObject({ ok: true, notes: [] });
});
