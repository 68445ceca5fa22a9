import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import type { ApiServerOptions } from '../apiserver/api-server.ts';
import { encodeFrame } from '../apiserver/protobuf/encode-object.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { Bed, Follower, JSON_ONLY, node, PROTOBUF, service, slice } from './harness.ts';

let bed: Bed;
let jsonOnly: string[] = [];

afterEach(() => bed.stop());

async function serverWith(options: ApiServerOptions): Promise<void> {
  jsonOnly = [];
  bed = new Bed(options);
  await bed.server.start();
  bed.server.apply(node('node-1'));
  bed.server.apply(service('a', '10.96.0.1'));
  bed.server.apply(slice('a', ['10.0.0.1', '10.0.0.2']));
}

function follow(accept: string): void {
  bed.follow({}, { accept, onJsonOnly: (reason) => jsonOnly.push(reason) });
}

async function followed(services: string): Promise<void> {
  await eventually(() => {
    expect(bed.view.names('service')).toBe(services);
    expect(bed.view.names('endpoint-slice')).toBe('a');
    expect(bed.view.names('node')).toBe('node-1');
  });
}

/** Returns the encodings of the successful lists and watches. */
function encodings(): readonly string[] {
  return [...new Set(bed.server.requests.filter(({ code }) => code === 200).map(({ encoding }) => encoding))];
}

test.each([
  ['a WatchList in protobuf', PROTOBUF, {}, 'protobuf'],
  ['lists and watches in protobuf', PROTOBUF, { watchList: false }, 'protobuf'],
  ['a WatchList in JSON', JSON_ONLY.accept, {}, 'json'],
  ['a server that has no protobuf', PROTOBUF, { protobuf: false }, 'json'],
  ['only protobuf is accepted', 'application/vnd.kubernetes.protobuf', {}, 'protobuf'],
])('%s: all objects and changes arrive', async (_name, accept, options, encoding) => {
  await serverWith(options);
  follow(accept);
  await followed('a');
  bed.server.apply(service('b', '10.96.0.2'));
  await followed('a b');
  bed.server.delete(service('a', ''));
  await followed('b');
  expect(encodings()).toEqual([encoding]);
  expect(jsonOnly).toEqual([]);
  expect(bed.log.messages('warn')).toEqual([]);
});

test.each([{}, { watchList: false }])(
  'a server that refuses the content type: JSON, and it is said once',
  async (more) => {
    await serverWith({ protobuf: false, ...more });
    follow('application/vnd.kubernetes.protobuf');
    await followed('a');
    bed.server.apply(service('b', '10.96.0.2'));
    await followed('a b');
    expect(encodings()).toEqual(['json']);
    expect(jsonOnly).toEqual(['status 406']);
    expect(bed.log.messages('warn')).toEqual([]);
  },
);

test('an answer in another type is not read: JSON', async () => {
  await serverWith({});
  let yaml = 0;
  const gateway = http.createServer((request, response) => {
    if (request.headers.accept !== 'application/json') {
      yaml++;
      response.writeHead(200, { 'Content-Type': 'application/yaml' });
      return void response.end('kind: ServiceList');
    }
    const { method, headers } = request;
    const url = `${bed.server.url}${request.url}`;
    http.get(url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  const follower = new Follower();
  const accept = 'application/yaml, application/json';
  const master = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  follower.start({ master, accept, onJsonOnly: (reason) => jsonOnly.push(reason) });
  await eventually(() => expect(follower.view.names('service')).toBe('a'));
  await follower.stop();
  gateway.closeAllConnections();
  gateway.close();
  expect(yaml).toBeGreaterThan(0);
  expect(jsonOnly).toEqual(['content type application/yaml']);
});

test('an error in protobuf: its reason is logged', async () => {
  await serverWith({ watchList: false });
  bed.server.faults.add({ resource: 'services', fault: { type: 'status', code: 503, message: 'etcd is away' } });
  follow(PROTOBUF);
  await followed('a');
  expect(bed.log.messages('warn').join()).toMatch(/etcd is away/);
});

test.each([
  ['a list that is not protobuf', 'null', /the list is not valid protobuf: the list does not begin with "k8s\\0"/],
  ['a page of a load balancer', '<html>', /the list is not valid protobuf/],
])('%s is logged and requested again', async (_name, line, reason) => {
  await serverWith({ watchList: false });
  bed.server.faults.add({ verb: 'list', resource: 'services', fault: { type: 'garbage', line } });
  follow(PROTOBUF);
  await followed('a');
  expect(bed.log.messages('warn').join()).toMatch(reason);
});

test.each([
  ['garbage', Buffer.from('\0garbage\n'), /the watch of services is not valid protobuf: a frame has no event/],
  ['a frame without an end', Buffer.from([127, 0, 0, 0, 10]), /an event has more than 33554432 bytes/],
  ['an object of another kind', encodeFrame('ADDED', node('x')), /a "Node" instead of a Service/],
  [
    'an unknown type of event',
    encodeFrame('NEW', service('x', '10.96.0.9')),
    /an event of the watch has the unknown type "NEW"/,
  ],
])('%s in a watch: logged, the watch restarted, no event lost', async (_name, bytes, reason) => {
  await serverWith({});
  follow(PROTOBUF);
  await followed('a');
  bed.server.eachWatch((watch) => watch.raw(bytes), 'services');
  bed.server.apply(service('b', '10.96.0.2'));
  await followed('a b');
  expect(bed.log.messages('warn').join()).toMatch(reason);
  expect(bed.view.types('service')).toEqual(['replaced', 'applied']);
});

test('an object whose bytes are invalid is named and skipped, and the watch continues', async () => {
  await serverWith({});
  follow(PROTOBUF);
  await followed('a');
  const { length } = bed.requested('services');
  const frame = encodeFrame('ADDED', service('broken', '10.96.0.77'));
  // The length of clusterIP: more than the spec has.
  frame[frame.indexOf('10.96.0.77') - 1] = 120;
  bed.server.eachWatch((watch) => watch.raw(frame), 'services');
  bed.server.apply(service('b', '10.96.0.2'));
  await followed('a b');
  expect(bed.log.messages('warn')).toEqual([
    'ignoring a watch event of services: the bytes of the Service default/broken are invalid: a value is longer than what holds it',
  ]);
  expect(bed.requested('services')).toHaveLength(length);
});

test('a watch that breaks off within a frame is resumed', async () => {
  await serverWith({});
  follow(PROTOBUF);
  await followed('a');
  bed.server.eachWatch((watch) => {
    watch.raw(encodeFrame('DELETED', service('a', '10.96.0.1')).subarray(0, 60));
    watch.end();
  }, 'services');
  bed.server.apply(service('b', '10.96.0.2'));
  await followed('a b');
  expect(bed.view.types('service')).toEqual(['replaced', 'applied']);
});
