import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';
import { loadAll } from 'js-yaml';
import { goTools } from '../support/tools.ts';

interface KubeObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec?: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly template: { readonly spec: { readonly nodeSelector: object; readonly affinity?: object } };
  };
}

/** The blocks of YAML in a section, without the indentation of a list. */
function yamlIn(page: string, heading: string): readonly string[] {
  const [, section = ''] = readFileSync(page, 'utf8').split(`${heading}\n`);
  const [text = ''] = section.split(/^##/m);
  return Array.from(text.matchAll(/^( *)```yaml\n([^`]*?)^ *```/gm), ([, indent = '', block = '']) =>
    block.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );
}

const tools = goTools('kustomize');

if (tools === undefined) test.todo('no kustomization was built, for this takes Go, which builds kustomize');
else
  test('the kustomizations of two modes in docs/modes.md have no object and no node in common', () => {
    const folder = mkdtempSync(path.join('build', 'two-modes-'));
    const build = (name: string, addition: string): readonly KubeObject[] => {
      const home = path.join(folder, name);
      mkdirSync(home);
      for (const file of ['config.conf', 'kubeconfig.conf'])
        copyFileSync(`manifests/base/${file}`, path.join(home, file));
      const [step4 = ''] = yamlIn('docs/migrate.md', '### 4. Prepare the manifests');
      const text = step4.replaceAll('../kube-ipvs-proxy/', '../../../') + addition;
      writeFileSync(path.join(home, 'kustomization.yaml'), text);
      const { status, stdout, stderr } = spawnSync(tools[0] ?? '', ['build', home], { encoding: 'utf8' });
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
      return loadAll(stdout) as KubeObject[];
    };
    try {
      const [ofSecond = '', ofFirst = ''] = yamlIn('docs/modes.md', '### Two modes for good');
      const [first, second] = [build('first', ofFirst), build('second', ofSecond)];
      const namesOf = (objects: readonly KubeObject[]): string[] =>
        objects.map(({ kind, metadata: { name } }) => `${kind} ${name}`);
      expect(namesOf(first)).toContain('DaemonSet kube-ipvs-proxy');
      expect(namesOf(second)).toContain('DaemonSet kube-ipvs-proxy-nftables');
      expect(namesOf(second).filter((name) => namesOf(first).includes(name))).toEqual([]);
      const [before, after] = [first, second].map((objects) => objects.find(({ kind }) => kind === 'DaemonSet')?.spec);
      const term = { matchExpressions: [{ key: 'proxy-mode', operator: 'DoesNotExist' }] };
      expect(before?.template.spec.affinity).toEqual({
        nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [term] } },
      });
      expect(after?.template.spec.nodeSelector).toMatchObject({ 'proxy-mode': 'nftables' });
      expect(after?.selector.matchLabels).toMatchObject({ 'k8s-app': 'kube-ipvs-proxy', 'proxy-mode': 'nftables' });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
