import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { IPVS_DIFFERENCES } from '../../judge/ipvs/differences.ts';
import { ONE_ENTRY } from '../../judge/judge.ts';
import { IPTABLES_DIFFERENCES, NFTABLES_DIFFERENCES, USERSPACE_DIFFERENCES } from '../../judge/rules/differences.ts';

const page = readFileSync('docs/differences.md', 'utf8').replaceAll(/\s+/g, ' ');
const all = new Set([
  ONE_ENTRY,
  ...IPVS_DIFFERENCES,
  ...NFTABLES_DIFFERENCES,
  ...IPTABLES_DIFFERENCES,
  ...USERSPACE_DIFFERENCES,
]);

test.each([...all])('docs/differences.md explains: $name', ({ section }) => {
  expect(page).toContain(`- **${section}** - kube-proxy:`);
});
