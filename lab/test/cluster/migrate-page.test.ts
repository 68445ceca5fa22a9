import { describe, expect, test } from '@jest/globals';
import { MigratePage } from '../../cluster/trial/migration/migrate-page.ts';

const TEXT = `# Migrate

## First

\`\`\`
kubectl one
# not a heading
\`\`\`

text

\`\`\`yaml
kind: Two
\`\`\`

### 2. Second

| command | expected result |
|---|---|
| \`curl one \\| grep '^x(a\\|b)'\` | 1 |
| \`curl two\` | 2 |

\`\`\`
kubectl one
\`\`\`
`;

describe('commands of docs/migrate.md', () => {
  const page = new MigratePage(TEXT);

  test('a code block is found by its heading and a part of it', () => {
    expect(page.block('First', 'one')).toBe('kubectl one\n# not a heading\n');
    expect(page.block('First', 'kind')).toBe('kind: Two\n');
    expect(page.block('2. Second', 'kubectl')).toBe('kubectl one\n');
  });

  test('a command of a table is found by a part of it, without the escapes of tables', () => {
    expect(page.tableCommand('2. Second', 'curl one')).toBe("curl one | grep '^x(a|b)'");
    expect(page.tableCommand('2. Second', 'two')).toBe('curl two');
  });

  test('what the page does not have, or has twice, is an error', () => {
    expect(() => page.block('Third', 'one')).toThrow('no section "Third"');
    expect(() => page.block('First', 'three')).toThrow('0 code blocks in "First"');
    expect(() => page.block('First', 'n')).toThrow('2 code blocks in "First"');
    expect(() => page.tableCommand('2. Second', 'curl')).toThrow('2 rows');
  });

  test('the page has what the trials of migrations run', async () => {
    const real = await MigratePage.read();
    const blocks = [
      ['1. Which mode does kube-proxy use?', '/proxyMode'],
      ['2. Does the kernel have the modules?', '/proc/net/ip_vs'],
      ['3. Copy the configuration', 'mkdir my-cluster'],
      ['3. Copy the configuration', '> config.conf'],
      ['3. Copy the configuration', '--write-config-to'],
      ['4. Prepare the manifests', 'kind: Kustomization'],
      ['5. Never run both on one node', 'patch daemonset kube-proxy'],
      ['6. One node', 'ipvsadm -Sn'],
      ['6. One node', 'kubectl label node'],
      ['8. After the last node', 'patch daemonset kube-proxy'],
      ['Rollback', 'service-proxy-'],
    ] as const;
    for (const [heading, text] of blocks) expect(real.block(heading, text)).toContain(text);
    for (const text of ['logs POD', '/proxyMode', '/healthz', 'diff /tmp/before', 'kubeipvs_']) {
      expect(real.tableCommand('6. One node', text)).toContain(text);
    }
  });
});
