import { describe, expect, test } from '@jest/globals';
import type { Endpoint, Service } from '../../../src/kube/objects/objects.ts';
import { HERE, endpoint, ip, planOf, servers, slice } from './build.ts';

const LOCAL = '10.244.0.2';
const REMOTE = '10.244.1.2';
const local = (fields: Partial<Endpoint> = {}): Endpoint => endpoint(LOCAL, { nodeName: HERE, ...fields });
const remote = (fields: Partial<Endpoint> = {}): Endpoint => endpoint(REMOTE, fields);
const notReady = { ready: false, serving: true, terminating: false };
const draining = { ready: false, serving: true, terminating: true };
const gone = { ready: false, serving: false, terminating: true };

const NODE_PORT: Partial<Service> = {
  type: 'NodePort',
  ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 30_080 }],
};

/** The endpoints of the ClusterIP and of the NodePort (undefined: there is none), by their last byte. */
function behind(service: Partial<Service>, endpoints: readonly Endpoint[]): Record<string, unknown> {
  const plan = planOf({
    service,
    slices: [slice(endpoints)],
    config: { families: [4] },
    node: { interfaceAddresses: [ip('192.168.0.10')] },
  });
  const find = (start: string): string | undefined =>
    servers(plan)
      .find((line) => line.startsWith(start))
      ?.replace(/.* ->/, '')
      .replaceAll(':8080', '')
      .trim();
  return {
    cluster: find('TCP 10.96.0.1:80 '),
    nodePort: find('TCP 192.168.0.10:30080 '),
    noLocal: plan.noLocalEndpoints,
  };
}

const NO = { internal: [], external: [] };

describe('policy Cluster', () => {
  test.each([
    ['all ready ones', [local(), remote()], `${LOCAL} ${REMOTE}`],
    ['not those that are not ready', [local(notReady), remote()], REMOTE],
    ['not those that drain while others are ready', [local(draining), remote()], REMOTE],
    ['those that drain when none is ready', [local(draining), remote(draining)], `${LOCAL} ${REMOTE}`],
    ['nobody who neither serves nor is ready', [local(gone), remote(notReady)], ''],
    ['ready ones that terminate too', [remote({ ready: true, terminating: true })], REMOTE],
    ['nobody, and the virtual server is there all the same', [], ''],
  ])('%s', (_name, endpoints, expected) => {
    expect(behind(NODE_PORT, endpoints)).toEqual({ cluster: expected, nodePort: expected, noLocal: NO });
  });
});

describe('externalTrafficPolicy Local: NodePorts use endpoints of this node, the ClusterIP uses all', () => {
  const service = { ...NODE_PORT, externalTrafficPolicy: 'Local' };
  test.each([
    ['a ready local one', [local(), remote()], { cluster: `${LOCAL} ${REMOTE}`, nodePort: LOCAL, noLocal: NO }],
    [
      'a draining local one is better than a ready remote one',
      [local(draining), remote()],
      { cluster: REMOTE, nodePort: LOCAL, noLocal: NO },
    ],
    [
      'without a usable local one all are used, and counted as such',
      [local(notReady), remote()],
      { cluster: REMOTE, nodePort: REMOTE, noLocal: { internal: [], external: [4] } },
    ],
    ['without any endpoint there is nothing to count', [], { cluster: '', nodePort: '', noLocal: NO }],
  ])('%s', (_name, endpoints, expected) => {
    expect(behind(service, endpoints)).toEqual(expected);
  });
});

describe('internalTrafficPolicy Local', () => {
  const local4 = { internalTrafficPolicy: 'Local' };
  test('with internalTrafficPolicy Local, the ClusterIP uses endpoints of this node, the NodePort uses all', () => {
    expect(behind({ ...NODE_PORT, ...local4 }, [local(), remote()])).toEqual({
      cluster: LOCAL,
      nodePort: `${LOCAL} ${REMOTE}`,
      noLocal: NO,
    });
  });

  test('internalTrafficPolicy Local falls back to all endpoints if the Service is reachable from outside', () => {
    expect(behind({ ...NODE_PORT, ...local4 }, [remote()])).toEqual({
      cluster: REMOTE,
      nodePort: REMOTE,
      noLocal: { internal: [4], external: [] },
    });
  });

  test('internalTrafficPolicy Local has no fallback if the Service is not reachable from outside', () => {
    expect(behind(local4, [remote()])).toEqual({
      cluster: '',
      nodePort: undefined,
      noLocal: { internal: [4], external: [] },
    });
  });

  test('a Service without local endpoints under both policies is counted for both', () => {
    expect(behind({ ...NODE_PORT, ...local4, externalTrafficPolicy: 'Local' }, [remote()])).toEqual({
      cluster: REMOTE,
      nodePort: REMOTE,
      noLocal: { internal: [4], external: [4] },
    });
  });

  test('a Service without any endpoint is not counted as without local endpoints', () => {
    expect(behind(local4, [])).toEqual({ cluster: '', nodePort: undefined, noLocal: NO });
  });
});
