import { expect, test } from '@jest/globals';
import { ip } from '../../contract/objects.ts';
import { FakeIptables } from '../../fake-kernel/fake-iptables.ts';
import { iptablesPlane } from '../../fake-kernel/planes.ts';
import { OF_KUBE_PROXY } from '../../support/chains-of-kube-proxy.ts';
import { startOn } from '../../support/on-plane.ts';
import { refuseOnce } from '../../support/refuse-once.ts';
import { listed, service, slice } from '../../support/objects.ts';

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
  const { run } = await startOn(iptablesPlane(programs));
  expect(await run.take(...listed([GUARDED], [slice('guarded', ['10.244.0.5'])]))).toMatchObject({ ok: true });
  expect(moments.filter((rules) => rules.length === 0)).toEqual([]);
  expect(denying()).toEqual([expect.stringContaining(LOAD_BALANCER_IP)]);
  await run.reconciler.stop();
});

const NODE = { address: ip('192.168.1.5'), prefix: 24, interfaceName: 'eth0', tentative: false };

test.each([1, 2, 3])(
  'if write %i of a take-over from kube-proxy fails, its node port stays, and so do other modes',
  async (nth) => {
    const programs = new FakeIptables();
    await programs.write(4, OF_KUBE_PROXY);
    const ports = [{ name: 'http', protocol: 'TCP' as const, port: 80, nodePort: 30080 }];
    const web = service('web', '10.96.0.10', { type: 'NodePort', externalIPs: ['203.0.113.1'], ports });
    const isServed = (): boolean => {
      const nat = programs.tables[4].get('nat');
      const jumps = nat?.get('KUBE-SERVICES')?.some((rule) => rule.endsWith('-j KUBE-NODEPORTS'));
      return jumps === true && nat?.get('KUBE-NODEPORTS')?.some((rule) => rule.includes('--dport 30080')) === true;
    };
    const moments: boolean[] = [];
    const write = programs.write.bind(programs);
    programs.write = async (family, script) => {
      await write(family, script);
      moments.push(isServed());
    };
    refuseOnce(programs, nth);
    const { run } = await startOn(iptablesPlane(programs), [NODE]);
    const endpoints = slice('web', ['10.244.0.5'], { ports: [{ name: 'http', protocol: 'TCP', port: 8080 }] });
    // What serves in other modes ends after a first sync that is ok.
    expect(await run.take(...listed([web], [endpoints]))).toMatchObject({ kind: 'first', ok: false });
    expect(isServed()).toBe(true);
    expect(await run.pass(30_000)).toMatchObject({ kind: 'first', ok: true, failures: [] });
    await run.pass(30_000);
    expect(isServed()).toBe(true);
    expect(moments.filter((served) => !served)).toEqual([]);
    await run.reconciler.stop();
  },
);
