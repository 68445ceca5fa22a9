import { beforeEach, expect, test } from '@jest/globals';
import { kernelStatusLines } from '../../../../src/command/status.ts';
import { topReply } from '../../../../src/command/top/top-reply.ts';
import { KernelAnswers } from '../../../../src/daemon/questions/kernel-answers.ts';
import { virtualServer } from '../../../contract/objects.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { listed, port, service, slice } from '../../../support/objects.ts';
import { Reconciling } from '../../../support/reconciling.ts';
import { address, vsId } from '../../../support/state.ts';

const ONLY = 'no daemon runs here (or it has another --query-socket), so only the kernel was read: ';
const FOREIGN = vsId('192.0.2.9', 53);

let kernel: FakeKernel;
let answers: KernelAnswers;

/** A kernel as a daemon has left it, with a virtual server of another program. */
beforeEach(async () => {
  kernel = new FakeKernel();
  await kernel.prepare();
  const own = { address: address('192.168.9.1'), prefix: 24, interfaceName: 'eth0', tentative: false };
  kernel.setNodeAddresses([own]);
  const run = new Reconciling(kernel);
  const web = service('web', '10.96.0.10', {
    externalIPs: ['203.0.113.1'],
    type: 'LoadBalancer',
    ports: [port(80, { nodePort: 30080 })],
    loadBalancerIngress: [{ ip: '203.0.113.2', ipMode: 'VIP' }],
  });
  await run.take(...listed([web], [slice('web', ['10.244.0.5', '10.244.0.6'])]));
  kernel.put({ kind: 'add-virtual-server', virtualServer: virtualServer(FOREIGN.address, FOREIGN.port) });
  answers = new KernelAnswers('node-a', kernel, run.clock);
});

test('status counts what there is, and names virtual servers that refuse connections', async () => {
  const { writes } = kernel.counters;
  const reply = await answers.status();
  expect(reply).toMatchObject({
    kind: 'KernelStatus',
    ok: false,
    kernelOnly: true,
    unserved: { count: 1, first: ['TCP 192.0.2.9:53'] },
  });
  const lines = kernelStatusLines(reply);
  expect(lines.join('\n')).toMatch(ONLY.slice(0, 60));
  expect(lines.filter((line) => line.length > 100)).toEqual([]);
  expect(kernel.counters.writes).toBe(writes);
});

test.each([
  ['10.96.0.10:80', ['ClusterIP'], '10.96.0.10:80/TCP is a ClusterIP, with real servers 10.244.0.5:8080 (weight 1), '],
  ['203.0.113.1:80/tcp', ['ExternalIP'], '203.0.113.1:80/TCP is an external IP, with real servers '],
  ['203.0.113.2:80', ['LoadBalancerIP'], '203.0.113.2:80/TCP is a load balancer IP, with '],
  ['192.168.9.1:30080', ['NodePort'], '192.168.9.1:30080/TCP is a NodePort, with '],
  ['192.0.2.9:53', ['foreign'], '192.0.2.9:53/TCP is a virtual server of another program, without real servers'],
  ['10.244.0.6:8080', ['endpoint'], '10.244.0.6:8080/TCP is a real server of 10.96.0.10:80, '],
  [
    '10.96.0.10:81',
    [],
    'no virtual server and no real server is 10.96.0.10:81; its address has virtual servers at 80/TCP',
  ],
  ['10.96.0.11:80', [], 'no virtual server and no real server is 10.96.0.11:80'],
])('%s is %j', async (at, is, verdict) => {
  const reply = await answers.address(at);
  expect(reply).toMatchObject({ kind: 'Address', ok: false, kernelOnly: true });
  expect(reply.matches.map((match) => match.is)).toEqual(is);
  expect(reply.verdict.startsWith(ONLY + verdict)).toBe(true);
});

test('a virtual server on kube-ipvs0 that no set names', async () => {
  const { address: at, port: number } = vsId('10.96.0.10', 99);
  kernel.put({ kind: 'add-virtual-server', virtualServer: virtualServer(at, number) });
  const { matches, verdict } = await answers.address('10.96.0.10:99');
  expect(matches).toMatchObject([{ is: 'leftover' }]);
  expect(verdict).toContain(
    '10.96.0.10:99/TCP is a virtual server on kube-ipvs0 that is in no set, without real servers',
  );
});

test('what is no address is the same error as with a daemon', async () => {
  await expect(answers.address('web:80')).rejects.toThrow('"web:80" is not IP, IP:PORT or IP:PORT/PROTOCOL');
});

test('top has a row for each virtual server, and says so', async () => {
  kernel.setStats(vsId('10.96.0.10', 80), { connections: 3 });
  const before = await answers.traffic('service');
  const now = { ...(await answers.traffic('service')), readAtSeconds: before.readAtSeconds + 4 };
  const { ok, kind, verdict, rows } = topReply(before, now, 'name');
  expect({ ok, kind }).toEqual({ ok: false, kind: 'Top' });
  expect(verdict).toBe(`${ONLY}0.0 new connections a second on node node-a, in 4.0 s, to 5 virtual servers`);
  expect(rows.map(({ of }) => of)).toContain('10.96.0.10:80/TCP');
});
