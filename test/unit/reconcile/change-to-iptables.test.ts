import { expect, test } from '@jest/globals';
import { iptablesKernelOf } from '../../../src/kernel/iptables-mode/iptables-kernel.ts';
import { NodeKernel } from '../../../src/kernel/linux/node-kernel.ts';
import { IPTABLES_MODE_PLAN } from '../../../src/plan/iptables-mode-plan.ts';
import { FakeIptables } from '../../fake-kernel/fake-iptables.ts';
import { listed, service, slice } from '../../support/objects.ts';
import { PLAN_CONFIG, Reconciling, TestLog } from '../../support/reconciling.ts';

/** The rule that denies in ipvs mode; the set that it names is that of ipvs mode. */
const OF_IPVS_MODE = '-m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j DROP';
const LOAD_BALANCER_IP = '203.0.113.20';

const GUARDED = service('guarded', '10.96.0.20', {
  type: 'LoadBalancer',
  loadBalancerIngress: [{ ip: LOAD_BALANCER_IP }],
  loadBalancerSourceRanges: ['198.51.100.0/24'],
});

test('at each moment of a change from ipvs mode, source ranges are enforced by the rules of one of both modes', async () => {
  const programs = new FakeIptables();
  programs.change(4, 'filter', (chains) => {
    chains.set('KUBE-PROXY-FIREWALL', [OF_IPVS_MODE]);
    chains.get('INPUT')!.push('-j KUBE-PROXY-FIREWALL');
  });
  const denying = (): readonly string[] =>
    (programs.tables[4].get('filter')?.get('KUBE-PROXY-FIREWALL') ?? []).filter(
      (rule) => rule === OF_IPVS_MODE || (rule.includes(LOAD_BALANCER_IP) && rule.endsWith(' -j DROP')),
    );
  const moments: (readonly string[])[] = [];
  const write = programs.write.bind(programs);
  programs.write = async (family, script) => {
    // Each table of a script is written on its own.
    for (const section of script.split(/(?<=COMMIT\n)/)) {
      await write(family, section);
      moments.push(denying());
    }
  };
  const kernel = Object.assign(iptablesKernelOf(new NodeKernel({ log: new TestLog() }), programs, 0), {
    getNodeAddresses: () => Promise.resolve([]),
    getUdpFlows: () => Promise.resolve([]),
  });
  await kernel.prepare();
  const run = new Reconciling(kernel, { plan: { ...PLAN_CONFIG, ...IPTABLES_MODE_PLAN } }, []);
  expect(await run.take(...listed([GUARDED], [slice('guarded', ['10.244.0.5'])]))).toMatchObject({ ok: true });
  expect(moments.filter((rules) => rules.length === 0)).toEqual([]);
  expect(denying()).toEqual([expect.stringContaining(LOAD_BALANCER_IP)]);
  await run.reconciler.stop();
});
