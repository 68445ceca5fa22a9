import { expect, test } from '@jest/globals';
import { parseArgv } from '../../../src/cli/parse-argv.ts';
import { configurationHash } from '../../../src/config/configuration-hash.ts';
import { loadConfig } from '../../../src/config/load-config.ts';

async function hashOf(...argv: string[]): Promise<string> {
  const parsed = parseArgv(['--proxy-mode=ipvs', ...argv]);
  if (!parsed.ok) throw new Error(parsed.errors.join());
  return configurationHash(await loadConfig(parsed.given));
}

test('nodes of one configuration have the same hash, whatever their names and addresses', async () => {
  const hash = await hashOf('--hostname-override=node-a', '--bind-address=10.0.0.1');
  expect(hash).toMatch(/^[0-9a-f]{12}$/);
  expect(await hashOf('--hostname-override=node-b', '--bind-address=10.0.0.2')).toBe(hash);
});

test.each(['--ipvs-scheduler=sh', '--ipvs-sync-period=40s', '--masquerade-all', '--ipvs-drain-timeout=1h'])(
  '%s is another configuration',
  async (flag) => {
    expect(await hashOf(flag)).not.toBe(await hashOf());
  },
);
