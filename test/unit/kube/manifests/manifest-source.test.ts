import { mkdir, mkdtemp, rename, rm, symlink, unlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ManifestSource } from '../../../../src/kube/manifests/manifest-source.ts';
import type { SourceEvent } from '../../../../src/kube/objects/source.ts';
import { eventually } from '../eventually.ts';
import { RecordingLog } from '../recording-log.ts';

let directory: string;
let log: RecordingLog;
let source: ManifestSource | undefined;
let events: SourceEvent[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'manifests-'));
  log = new RecordingLog();
  events = [];
});

afterEach(async () => {
  await source?.stop();
  source = undefined;
  await rm(directory, { recursive: true, force: true });
});

function start(options: { pollMs?: number; directory?: string } = {}): void {
  source = new ManifestSource({ directory, nodeName: 'node-1', log, debounceMs: 5, pollMs: 60_000, ...options });
  source.start((event) => events.push(event));
}

function service(name: string, clusterIP: string): string {
  return `apiVersion: v1\nkind: Service\nmetadata: { name: ${name} }\nspec: { clusterIP: ${clusterIP}, ports: [{ port: 80 }] }\n`;
}

function put(name: string, text: string): Promise<void> {
  return writeFile(join(directory, name), text);
}

function describeEvents(): readonly string[] {
  return events.map(({ kind, event }) => {
    switch (event.type) {
      case 'replaced':
        return `${kind} replaced ${event.objects.map((object) => object.meta.name).join(',')}`;
      case 'applied':
        return `${kind} applied ${event.object.meta.name}`;
      case 'deleted':
        return `${kind} deleted ${event.object.namespace}/${event.object.name}`;
    }
  });
}

async function startedWith(...names: readonly string[]): Promise<void> {
  start();
  await eventually(() => expect(describeEvents()).toContain(`service replaced ${names.join(',')}`));
  await eventually(() => expect(events).toHaveLength(3));
  events.length = 0;
}

describe('ManifestSource', () => {
  test('an empty directory gives an empty `replaced` for each kind', async () => {
    start();
    await eventually(() =>
      expect(describeEvents()).toEqual(['node replaced ', 'service replaced ', 'endpoint-slice replaced ']),
    );
  });

  test('the source reads YAML, JSON and lists, and only our Node', async () => {
    await put('a.yaml', `${service('a', '10.96.0.1')}---\n${service('b', '10.96.0.2')}`);
    await put('b.json', JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-1' } }));
    await put(
      'c.yml',
      'apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: node-2}}\n',
    );
    await put('README.txt', 'not a manifest: [');
    await put('.hidden.yaml', 'not a manifest: [');
    start();
    await eventually(() =>
      expect(describeEvents()).toEqual(['node replaced node-1', 'service replaced a,b', 'endpoint-slice replaced ']),
    );
    expect(log.messages('error')).toEqual([]);
  });

  test('later events contain only the differences', async () => {
    await put('a.yaml', `${service('a', '10.96.0.1')}---\n${service('b', '10.96.0.2')}`);
    await startedWith('a', 'b');
    await put(
      'a.yaml',
      `${service('a', '10.96.0.1')}---\n${service('b', '10.96.0.3')}---\n${service('c', '10.96.0.4')}`,
    );
    await eventually(() => expect(describeEvents()).toEqual(['service applied b', 'service applied c']));
    await unlink(join(directory, 'a.yaml'));
    await eventually(() =>
      expect(describeEvents().slice(2)).toEqual([
        'service deleted default/a',
        'service deleted default/b',
        'service deleted default/c',
      ]),
    );
  });

  test('a file that an editor replaces by rename is read again', async () => {
    await put('a.yaml', service('a', '10.96.0.1'));
    await startedWith('a');
    await put('.a.yaml.swp', service('a', '10.96.0.9'));
    await rename(join(directory, '.a.yaml.swp'), join(directory, 'a.yaml'));
    await eventually(() => expect(describeEvents()).toEqual(['service applied a']));
  });

  test('a ConfigMap volume whose symlink is swapped is read again', async () => {
    for (const [folder, address] of [
      ['..1', '10.96.0.1'],
      ['..2', '10.96.0.2'],
    ] as const) {
      await mkdir(join(directory, folder));
      await put(join(folder, 'a.yaml'), service('a', address));
    }
    await symlink('..1', join(directory, '..data'));
    await symlink('..data/a.yaml', join(directory, 'a.yaml'));
    await startedWith('a');
    await symlink('..2', join(directory, '..data_tmp'));
    await rename(join(directory, '..data_tmp'), join(directory, '..data'));
    await eventually(() => expect(describeEvents()).toEqual(['service applied a']));
  });

  test('an invalid file is logged once with its position, and keeps its last good state', async () => {
    await put('a.yaml', service('a', '10.96.0.1'));
    await startedWith('a');
    await put('a.yaml', 'apiVersion: v1\nkind: Service\nmetadata: {name: a\n');
    await put('b.yaml', service('b', '10.96.0.2'));
    await eventually(() => expect(describeEvents()).toEqual(['service applied b']));
    expect(log.messages('error')).toHaveLength(1);
    expect(log.messages('error')[0]).toMatch(
      /^manifest .*a\.yaml:4:1 is not valid: .*; the objects of its last valid version stay in effect until the file is corrected$/,
    );
    expect(log.messages('error')[0]).not.toContain('\n');
    await put('a.yaml', service('a', '10.96.0.5'));
    await eventually(() => expect(describeEvents()).toEqual(['service applied b', 'service applied a']));
  });

  test('of an object that two files define, the first file wins, and a warning names both', async () => {
    await put('a.yaml', service('x', '10.96.0.1'));
    await put('b.yaml', service('x', '10.96.0.2'));
    await startedWith('x');
    expect(log.messages('warn')).toEqual([
      'Service default/x is defined in a.yaml and in b.yaml: the first definition (in a.yaml) is used; remove the other',
    ]);
    await unlink(join(directory, 'a.yaml'));
    await eventually(() => expect(describeEvents()).toEqual(['service applied x']));
    expect(log.messages('warn')).toHaveLength(1);
  });

  test('a directory that is created later is read', async () => {
    await rm(directory, { recursive: true });
    start({ pollMs: 10 });
    await eventually(() => expect(log.messages('error')).toHaveLength(1));
    await sleep(40);
    expect(log.messages('error')).toEqual([
      `failed to read manifest directory ${directory}: it does not exist; nothing is programmed until it can be read`,
    ]);
    expect(events).toEqual([]);
    await mkdir(directory);
    await put('a.yaml', service('a', '10.96.0.1'));
    await eventually(() => expect(describeEvents().join(' ')).toMatch(/service (replaced|applied) a/));
  });

  test('a recreated directory is watched again, and no object is deleted while it is missing', async () => {
    await put('a.yaml', service('a', '10.96.0.1'));
    start({ pollMs: 10 });
    await eventually(() => expect(events).toHaveLength(3));
    events.length = 0;
    await rename(directory, `${directory}.old`);
    await eventually(() => expect(log.messages('error')).toHaveLength(1));
    expect(log.messages('error')[0]).toMatch(
      /it does not exist; the objects that it had stay in effect until it can be read$/,
    );
    expect(events).toEqual([]);
    await rename(`${directory}.old`, directory);
    await put('b.yaml', service('b', '10.96.0.2'));
    await eventually(() => expect(describeEvents()).toEqual(['service applied b']));
  });

  test('the poll finds changes without inotify events', async () => {
    await mkdir(join(directory, 'elsewhere'));
    await put('elsewhere/a.yaml', service('a', '10.96.0.1'));
    await symlink('elsewhere/a.yaml', join(directory, 'a.yaml'));
    start({ pollMs: 10 });
    await eventually(() => expect(events).toHaveLength(3));
    events.length = 0;
    // Changes behind a link do not touch the watched directory.
    await put('elsewhere/a.yaml', service('a', '10.96.0.22'));
    await eventually(() => expect(describeEvents()).toEqual(['service applied a']));
  });

  test('a file that was only touched changes nothing', async () => {
    await put('a.yaml', service('a', '10.96.0.1'));
    await startedWith('a');
    await utimes(join(directory, 'a.yaml'), 1, 1);
    await put('b.yaml', service('b', '10.96.0.2'));
    await eventually(() => expect(describeEvents()).toEqual(['service applied b']));
  });

  test('no event after stop()', async () => {
    await put('a.yaml', service('a', '10.96.0.1'));
    start();
    await source?.stop();
    const count = events.length;
    await put('b.yaml', service('b', '10.96.0.2'));
    await sleep(50);
    expect(events).toHaveLength(count);
  });
});
