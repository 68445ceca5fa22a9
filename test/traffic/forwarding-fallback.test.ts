import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, externalAddress, podAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import { patient } from '../bed/patience.ts';
import { startDaemon } from '../support/daemon.ts';
import { ApiLink } from './api-link.ts';
import { POD_PORT, SERVICE_PORT, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(patient(180_000));

const VIP = externalAddress(1);

describe('a Service that asks for a tunnel, but whose target port differs', () => {
  let bed: Bed;
  let api: ApiLink;
  let daemon: LongProcess;

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 1, podsPerNode: 1, clients: 1 });
    await bed.pod(0, 0).serveTcp(POD_PORT);
    await bed.pod(0, 0).serveUdp(POD_PORT);
    api = await ApiLink.create(bed.node(0));
    api.server.auth.setTokens({ secret: 'system:kube-proxy' });
    const objects = serviceObjects({
      name: 'direct',
      clusterIp: clusterAddress(20),
      protocols: ['TCP', 'UDP'],
      externalIp: VIP,
      annotations: { forwarding: 'tunnel' },
      targetPort: POD_PORT,
      endpoints: [{ addresses: podAddress(0, 0), node: 0 }],
    });
    for (const object of objects) api.server.apply(object);
    const kubeconfig = await api.kubeconfig({ token: 'secret' });
    daemon = await startDaemon(bed.node(0), [`--kubeconfig=${kubeconfig}`, '--service-annotations=forwarding']);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await api[Symbol.asyncDispose]();
  });

  const events = () =>
    api.server.objects('events', 'events.k8s.io/v1').filter(({ reason }) => reason === 'ForwardingNotPossible');

  test('is served with NAT, and says why in the log and in an Event', async () => {
    for (const address of [VIP.v4, VIP.v6]) {
      expect(await bed.client(0).probeTcp(address, SERVICE_PORT)).toMatchObject({ ok: true, answeredBy: 'pod-0-0' });
      expect(await bed.client(0).probeUdp(address, SERVICE_PORT)).toMatchObject({ ok: true, answeredBy: 'pod-0-0' });
    }
    const { stdout } = await bed.node(0).exec(['ipvsadm', '-Sn']);
    expect(stdout).toContain(`${VIP.v4}:${SERVICE_PORT} -r`);
    expect(stdout).not.toContain(' -i ');
    const why = `port ${SERVICE_PORT} (TCP) is forwarded with NAT, not by tunnel: the target port is ${POD_PORT}`;
    expect(daemon.output).toContain(why);
    // An Event that all nodes write alike waits for a random time, but not beyond the end of the daemon.
    await daemon.stop(10_000);
    expect(events()).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          type: 'Warning',
          regarding: expect.objectContaining({ kind: 'Service', name: 'direct' }),
          note: expect.stringContaining(why),
        }),
      ]),
    );
  });
});
