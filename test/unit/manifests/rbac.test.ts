import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { ApiClient } from '../../../src/kube/api/api-client.ts';
import { ApiSource } from '../../../src/kube/api/api-source.ts';
import { EventPoster } from '../../../src/kube/api/event-poster.ts';
import type { OutgoingEvent } from '../../../src/observe/events.ts';
import { ApiServer } from '../../apiserver/api-server.ts';
import { eventually } from '../kube/eventually.ts';
import { RecordingLog } from '../kube/recording-log.ts';
import { build, itemsOf } from './kustomization.ts';

let server: ApiServer;
let client: ApiClient;

beforeEach(async () => {
  // Without WatchList the source lists too: what the role allows must do for old servers as well.
  server = new ApiServer({ watchList: false });
  const created = ApiClient.create({ kubeconfig: '', master: await server.start(), userAgent: 'test' });
  if (!created.ok) throw new Error(created.error);
  ({ client } = created);
});

afterEach(async () => {
  client.close();
  await server.stop();
});

/** "group resource verb" of everything that the role allows. */
function allowed(): readonly string[] {
  const role = build('manifests/base').objects.find(({ kind }) => kind === 'ClusterRole');
  const rules = itemsOf(role?.['rules']) as readonly {
    readonly apiGroups: readonly string[];
    readonly resources: readonly string[];
    readonly verbs: readonly string[];
  }[];
  return rules
    .flatMap(({ apiGroups, resources, verbs }) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((resource) => verbs.map((verb) => `${group} ${resource} ${verb}`)),
      ),
    )
    .toSorted();
}

function groupOf(path: string): string {
  return /^\/apis\/([^/]+)\//.exec(path)?.[1] ?? '';
}

test('the ClusterRole allows what is requested, and nothing else', async () => {
  const nodeName = 'node-1';
  const source = new ApiSource({ client, nodeName, log: new RecordingLog() });
  source.start(() => undefined);
  await eventually(() => expect(server.watches.size).toBe(3));
  await source.stop();

  const poster = new EventPoster({ client, nodeName });
  const event: OutgoingEvent = {
    name: 'web.1',
    subject: { kind: 'Service', namespace: 'shop', name: 'web' },
    text: { type: 'Warning', reason: 'Reason', action: 'Action', note: 'note' },
    firstAt: Date.now(),
    lastAt: Date.now(),
    count: 1,
  };
  const { signal } = new AbortController();
  expect(await poster.create(event, signal)).toEqual({ result: 'done' });
  expect(await poster.update({ ...event, count: 2 }, signal)).toEqual({ result: 'done' });

  const requested = server.requests.map(({ path, resource, verb }) => `${groupOf(path)} ${resource} ${verb}`);
  expect([...new Set(requested)].toSorted()).toEqual(allowed());
});
