import { execFileSync } from 'node:child_process';
import { jest, test } from '@jest/globals';
import { realIptablesBed } from '../contract/iptables-bed.ts';
import { iptablesContract } from '../contract/iptables-contract.ts';

jest.setTimeout(120_000);

/** Why nothing can be tried here; undefined when it can. */
function obstacle(variant: string): string | undefined {
  try {
    const script = `iptables-${variant} -t nat -A OUTPUT -m recent --set --name TEST && ip6tables-${variant} -t nat -S`;
    execFileSync('unshare', ['--net', 'sh', '-c', script], { stdio: 'pipe' });
    return undefined;
  } catch (error) {
    return String(error).split('\n', 2).join(' ');
  }
}

for (const variant of ['nft', 'legacy'] as const) {
  const why = obstacle(variant);
  if (why === undefined) iptablesContract(`with ${variant} tables`, () => realIptablesBed(variant));
  // Not a pass: nothing was tried.
  else test.todo(`iptables-${variant} was not tried, for this takes root and a kernel that has it: ${why}`);
}
