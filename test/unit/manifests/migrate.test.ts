import { readFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { readConfigDocument } from '../../../src/config/config-document.ts';
import { FakeKubectl } from '../../support/fake-kubectl.ts';
import { type Ended, runToEnd } from '../../support/program.ts';

const SCRIPT = 'scripts/migrate';

const CONFIG = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
bindAddressHardFail: false
ipvs:
  scheduler: lc
  strictARP: false
mode: "ipvs"`;

const FACTS = `folder yes
module ip_vs yes
module ip_vs_lc yes
sysctl kernel/modules_disabled 0
sysctl net/bridge/bridge-nf-call-iptables 1
virtual-servers 12
`;

let kubectl: FakeKubectl;

beforeEach(async () => {
  kubectl = await FakeKubectl.make(CONFIG);
  await kubectl.put(
    'configmap/kube-proxy/kubeconfig.conf',
    'clusters:\n- cluster:\n    server: https://[fd00::1]:6443\n',
  );
  await kubectl.put('facts', FACTS);
});

afterEach(async () => {
  await kubectl.dispose();
});

async function run(...args: readonly string[]): Promise<Ended> {
  return await kubectl.run(SCRIPT, ...args);
}

const TERM = '{"key":"service-proxy","operator":"NotIn","values":["kube-ipvs-proxy"]}';
const TERMS =
  '/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms';

describe('migrate check', () => {
  test('a cluster that would work', async () => {
    expect(await run('check')).toEqual({
      status: 0,
      stderr: '',
      stdout: `cluster
  ok    kube-proxy is a DaemonSet; its configuration: ConfigMap kube-proxy, key config.conf
  ok    kube-proxy runs in ipvs mode
node node-1
  ok    kernel modules: all there
  => would work
node node-2
  ok    kernel modules: all there
  => would work
`,
    });
    expect(await kubectl.changes()).toEqual([]);
    expect(await kubectl.get('asked')).toMatch(/^exec kube-proxy-of-node-2 -- sh -c /m);
    expect(await kubectl.get('asked')).toMatch(/ sh ip_vs ip_vs_lc nf_conntrack .*xt_physdev 6\.1\.0-21-amd64$/m);
  });

  /** What a file of the fake says, and the line of the result. */
  const FINDINGS: readonly (readonly [name: string, text: string, finding: string])[] = [
    [
      'configmap/kube-proxy/config.conf',
      CONFIG.replace('"ipvs"', '""'),
      'warn  kube-proxy runs in mode iptables (by default): start takes nodes over without a gap',
    ],
    [
      'configmap/kube-proxy/config.conf',
      CONFIG.replace('"ipvs"', 'nftables'),
      'warn  kube-proxy runs in mode nftables: start takes nodes over without a gap; before back',
    ],
    [
      'configmap/kube-proxy/config.conf',
      `${CONFIG}\nhealthzBindAddress: 127.0.0.1:10256`,
      'warn  healthzBindAddress is a loopback address',
    ],
    [
      'configmap/kube-proxy/config.conf',
      `${CONFIG}\nhealthzBindAddress: '[::1]:10256'`,
      'warn  healthzBindAddress is a loopback address',
    ],
    ['facts', `${FACTS}module xt_set no\nmodule dummy no\n`, 'no    kernel modules missing: xt_set dummy'],
    [
      'facts',
      'module ip_vs no\n',
      '?     kernel modules: /lib/modules/6.1.0-21-amd64 does not exist; not visible: ip_vs',
    ],
    ['facts', FACTS.replace('modules_disabled 0', 'modules_disabled 1'), 'warn  kernel.modules_disabled is 1'],
    ['facts', FACTS.replace('iptables 1', 'iptables 0'), 'warn  net.bridge.bridge-nf-call-iptables is 0'],
    ['kernel', '3.10.0-1160.el7', 'no    the kernel is 3.10.0-1160.el7; 4.1 or newer is needed'],
  ];

  test.each(FINDINGS.map(([name, text, finding]) => ({ name, text, finding })))(
    '$finding',
    async ({ name, text, finding }) => {
      await kubectl.put(name, text);
      const { status, stdout, stderr } = await run('check');
      expect(stderr).toBe('');
      expect(stdout).toContain(`\n  ${finding}`);
      expect(status).toBe(/^(no|\?)/.test(finding) ? 1 : 0);
    },
  );

  test('the configuration of EKS is found', async () => {
    await kubectl.put('daemonset/kube-proxy', 'kube-proxy\nkube-proxy-config\n');
    await kubectl.remove('configmap/kube-proxy/config.conf');
    await kubectl.put('configmap/kube-proxy-config/config', CONFIG);
    expect(await run('check')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('its configuration: ConfigMap kube-proxy-config, key config\n'),
    });
  });

  test('static Pods and k3s are refused', async () => {
    await kubectl.remove('daemonset/kube-proxy');
    await kubectl.put('static', '');
    await kubectl.put('flags', '--kubeconfig=x\n--proxy-mode=ipvs\n');
    const { status, stdout } = await run('check');
    expect(status).toBe(1);
    expect(stdout).toContain('no    kube-proxy is a static Pod');
    expect(stdout).toContain('ok    kube-proxy runs in ipvs mode');
    await kubectl.remove('static');
    await kubectl.put('kubelet', 'v1.31.4+k3s1');
    expect((await run('check')).stdout).toContain('no    kube-proxy is part of k3s');
  });

  test('where the image of kube-proxy has no shell, a Pod of our image reads the same', async () => {
    await kubectl.put('no-shell', '');
    const without = await run('check', 'node-1');
    expect(without.status).toBe(1);
    expect(without.stdout).toContain(
      '?     kernel modules: no answer from Pod kube-proxy-of-node-1: exec: "sh": executable file not found in $PATH. With --image, a Pod of our image answers\n',
    );
    const { status, stdout } = await run('check', '--image', 'registry.example/proxy:v1', 'node-1');
    expect([status, stdout]).toEqual([0, expect.stringContaining('ok    kernel modules: all there\n')]);
    const { spec } = JSON.parse(await kubectl.get('overrides')) as {
      spec: { nodeName: string; containers: readonly [{ image: string; command: readonly string[] }] };
    };
    const [{ image, command }] = spec.containers;
    expect([spec.nodeName, image]).toEqual(['node-1', 'registry.example/proxy:v1']);
    // What the Pod runs, on this machine.
    const [, ...args] = command;
    const facts = await runToEnd([process.execPath, ...args]);
    expect(facts).toMatchObject({ status: 0, stderr: '' });
    expect(facts.stdout).toMatch(/^module ip_vs (yes|no)$/m);
    expect(facts.stdout).toMatch(/^sysctl net\/ipv4\/ip_forward [01]$/m);
    expect(facts.stdout).toMatch(/^virtual-servers \d+$/m);
  });

  test('one node only', async () => {
    const { status, stdout } = await run('check', 'node-2');
    expect(status).toBe(0);
    expect(stdout).not.toContain('node-1');
  });
});

describe('migrate shadow', () => {
  const KNOWN = `the kernel against the plan of this dry run: no unexpected differences, and 2 known ones
(rule-text 2)

# known: rule-text
iptables -t nat -N KUBE-SERVICES
iptables -t nat -A KUBE-SERVICES -j RETURN
`;
  const UNEXPECTED = `the kernel against the plan of this dry run: 1 unexpected difference

# shop/web
ipvsadm -A -t 10.96.0.10:80 -s rr
`;

  beforeEach(async () => {
    await kubectl.put('diff/node-1', KNOWN);
    await kubectl.put('diff/node-2', KNOWN);
  });

  test('installs a dry run with the configuration of kube-proxy on all nodes, and compares each', async () => {
    const { status, stderr, stdout } = await run('shadow', '--image', 'mine:v1');
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(await kubectl.changes()).toEqual(['apply --filename all.yaml']);
    const kustomization = await kubectl.get('built/kustomization.yaml');
    expect(kustomization).toMatch(/manifests\/overlays\/shadow\n/);
    expect(kustomization).not.toContain('labelled-nodes');
    expect(kustomization).toContain('    newName: "mine"\n');
    expect(readConfigDocument(await kubectl.get('built/config.conf'), 'config.conf').fields).toMatchObject({
      'ipvs.scheduler': 'lc',
    });
    const words =
      '  the kernel against the plan of this dry run: no unexpected differences, and 2 known ones\n  (rule-text 2)\n';
    expect(stdout.split('\n').slice(-7).join('\n')).toBe(`node node-1\n${words}node node-2\n${words}`);
  });

  test('an unexpected difference is printed, and makes the status 1; a second run installs nothing', async () => {
    await run('shadow');
    await kubectl.put('asked', '');
    await kubectl.put('diff/node-2', UNEXPECTED);
    const { status, stdout } = await run('shadow', 'node-2');
    expect(status).toBe(1);
    expect(stdout).toBe(`node node-2
  the kernel against the plan of this dry run: 1 unexpected difference
  # shop/web
  ipvsadm -A -t 10.96.0.10:80 -s rr
`);
    expect(await kubectl.changes()).toEqual([]);
  });

  test('a node that does not answer', async () => {
    await kubectl.put('diff/node-1', 'kube-ipvs-proxy: the daemon has not completed its first sync');
    const { status, stdout } = await run('shadow', '--timeout', '0', 'node-1');
    expect(status).toBe(1);
    expect(stdout).toContain('  no answer after 0 s: kube-ipvs-proxy: the daemon has not completed its first sync\n');
  });

  test('--remove removes the dry run only; status and start do not take it for the proxy', async () => {
    await run('shadow');
    expect((await run('status')).stdout).toMatch(/node-1 +- +ready, 3 restarts +- +ok/);
    await kubectl.put('asked', '');
    expect(await run('shadow', '--remove')).toMatchObject({ status: 0, stderr: '' });
    expect(await kubectl.changes()).toEqual([
      'delete daemonset kube-ipvs-proxy-shadow --ignore-not-found',
      'delete clusterrolebinding,clusterrole,serviceaccount kube-ipvs-proxy-shadow --ignore-not-found',
      'delete configmap --selector app.kubernetes.io/name=kube-ipvs-proxy-shadow --ignore-not-found',
    ]);
  });

  test('kube-proxy in another mode has nothing to compare with', async () => {
    await kubectl.put('configmap/kube-proxy/config.conf', CONFIG.replace('"ipvs"', '"iptables"'));
    expect(await run('shadow')).toMatchObject({
      status: 1,
      stderr: 'migrate: kube-proxy runs in mode iptables: a dry run compares with ipvs mode only\n',
    });
    expect(await kubectl.changes()).toEqual([]);
  });
});

describe('migrate start and back', () => {
  test('start installs with the configuration of kube-proxy, and moves the nodes in turn', async () => {
    const { status, stderr, stdout } = await run('start', '--image', 'host.example:5000/a/mine:v1', 'node-2', 'node-1');
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(await kubectl.changes()).toEqual([
      'apply --filename all.yaml',
      expect.stringMatching(/^patch daemonset kube-proxy --type=merge --patch .*"NotIn"/),
      'rollout status daemonset/kube-proxy --timeout=360s',
      'label node node-2 service-proxy=kube-ipvs-proxy --overwrite',
      'label node node-1 service-proxy=kube-ipvs-proxy --overwrite',
    ]);
    expect(stdout).toMatch(/node-2: kube-ipvs-proxy runs.*\n.*label.*\n.*node-1: kube-ipvs-proxy runs/);
    const { fields, warnings } = readConfigDocument(await kubectl.get('built/config.conf'), 'config.conf');
    expect(warnings).toEqual([]);
    expect(fields).toMatchObject({
      mode: 'ipvs',
      'ipvs.scheduler': 'lc',
      bindAddressHardFail: true,
      'clientConnection.kubeconfig': '/etc/kube-ipvs-proxy/kubeconfig.conf',
    });
    expect(await kubectl.get('built/kubeconfig.conf')).toContain('      server: https://[fd00::1]:6443\n');
    const kustomization = await kubectl.get('built/kustomization.yaml');
    expect(kustomization).toContain('    newName: "host.example:5000/a/mine"\n    newTag: "v1"\n');
    expect(kustomization).toMatch(/manifests\/components\/labelled-nodes\n/);
    expect(await kubectl.leftovers()).toBe('');
  });

  test('an API server that every node has at 127.0.0.1:6443 is preferred to one address for all', async () => {
    await kubectl.put('facts', `${FACTS}listens at 127.0.0.1:6443\n`);
    const { status, stdout } = await run('start', 'node-1');
    expect(status).toBe(0);
    expect(stdout).toContain('the API server: https://127.0.0.1:6443, because every node has it');
    expect(await kubectl.get('built/kubeconfig.conf')).toContain('      server: https://127.0.0.1:6443\n');
    await kubectl.put('facts', FACTS);
    expect(await run('start', '--server', 'https://192.0.2.1:6443', 'node-1')).toMatchObject({ status: 0 });
  });

  // From /proc/net/tcp and tcp6 of a worker of kubespray, of a control plane node, and of a node with a connection to there.
  const TABLES: readonly (readonly [line: string, listens: boolean])[] = [
    [
      '   3: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 31415 1 ffff 100 0 0 10 0',
      true,
    ],
    [
      '   1: 00000000000000000000000000000000:192B 00000000000000000000000000000000:0000 0A 00000000:00000000 00:0',
      true,
    ],
    [
      '   2: 0A00000A:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 31415 1 ffff 100',
      false,
    ],
    [
      '   9: 0100007F:192B 0100007F:8000 01 00000000:00000000 02:00000000 00000000     0        0 31415 1 ffff 100',
      false,
    ],
  ];

  test.each(TABLES)('the expression for listeners, on %s', async (line, listens) => {
    const [, expression = ''] = /grep -qE "(\^ \*\[0-9\]\+: [^"]+)"/.exec(await readFile(SCRIPT, 'utf8')) ?? [];
    expect(new RegExp(expression).test(line)).toBe(listens);
  });

  const LOOPBACK: readonly (readonly [given: string, expected: string])[] = [
    ['127.0.0.1:10256', '0.0.0.0:10256'],
    ["'[::1]:10256'", '[::]:10256'],
    ['192.0.2.1:10256', '192.0.2.1:10256'],
  ];

  test.each(LOOPBACK)('healthzBindAddress %s becomes %s', async (given, expected) => {
    await kubectl.put('configmap/kube-proxy/config.conf', `healthzBindAddress: ${given}\n${CONFIG}`);
    expect(await run('start', 'node-1')).toMatchObject({ status: 0 });
    const { fields } = readConfigDocument(await kubectl.get('built/config.conf'), 'config.conf');
    expect(fields).toMatchObject({ healthzBindAddress: expected });
  });

  test.each(['""', 'iptables'])(
    'with mode %s, start sets mode ipvs, and back refuses without --force',
    async (mode) => {
      await kubectl.put('configmap/kube-proxy/config.conf', CONFIG.replace('"ipvs"', mode));
      expect(await run('start', 'node-1')).toMatchObject({ status: 0, stderr: '' });
      const { fields } = readConfigDocument(await kubectl.get('built/config.conf'), 'config.conf');
      expect(fields).toMatchObject({ mode: 'ipvs', 'ipvs.scheduler': 'lc' });
      await kubectl.put('asked', '');
      const { status, stderr } = await run('back', 'node-1');
      expect(status).toBe(1);
      expect(stderr).toContain(
        'which does not adopt what kube-ipvs-proxy wrote: change the mode of kube-ipvs-proxy to iptables first',
      );
      expect(await kubectl.changes()).toEqual([]);
      expect(await run('back', '--force', 'node-1')).toMatchObject({ status: 0, stderr: '' });
    },
  );

  test('start keeps the node selector terms that kube-proxy has, and back --all removes only its own', async () => {
    await kubectl.put('terms', ':kubernetes.io/os,eks.amazonaws.com/compute-type,\n:\n');
    await run('start', 'node-1');
    expect((await kubectl.changes())[1]).toBe(
      `patch daemonset kube-proxy --type=json --patch [{"op":"add","path":"${TERMS}/0/matchExpressions/-","value":${TERM}},` +
        `{"op":"add","path":"${TERMS}/1/matchExpressions","value":[${TERM}]}]`,
    );
    await kubectl.put('terms', ':kubernetes.io/os,eks.amazonaws.com/compute-type,service-proxy,\n:service-proxy,\n');
    await kubectl.put('asked', '');
    expect(await run('back', '--all')).toMatchObject({ status: 0, stderr: '' });
    expect(await kubectl.changes()).toEqual([
      'label node node-1 service-proxy-',
      `patch daemonset kube-proxy --type=json --patch [{"op":"remove","path":"${TERMS}/0/matchExpressions/2"},` +
        `{"op":"remove","path":"${TERMS}/1/matchExpressions/0"}]`,
      'rollout status daemonset/kube-proxy --timeout=360s',
      'delete daemonset kube-ipvs-proxy --ignore-not-found',
      'delete clusterrolebinding,clusterrole,serviceaccount kube-ipvs-proxy --ignore-not-found',
      'delete configmap --selector app.kubernetes.io/name=kube-ipvs-proxy --ignore-not-found',
    ]);
  });

  test('a second start neither installs nor patches again, and back moves one node only', async () => {
    await run('start', 'node-1');
    await kubectl.put('terms', ':service-proxy,\n');
    await kubectl.put('asked', '');
    expect(await run('start', 'node-2')).toMatchObject({ status: 0, stderr: '' });
    expect(await kubectl.changes()).toEqual(['label node node-2 service-proxy=kube-ipvs-proxy --overwrite']);
    await kubectl.put('asked', '');
    expect(await run('back', 'node-2')).toMatchObject({ status: 0, stderr: '' });
    expect(await kubectl.changes()).toEqual(['label node node-2 service-proxy-']);
    const { stdout } = await run('status');
    expect(stdout.split('\n').map((line) => line.trim().split(/ {2,}/))).toEqual([
      ['NODE', 'LABEL', 'KUBE-PROXY', 'KUBE-IPVS-PROXY', 'HEALTH'],
      ['node-1', 'kube-ipvs-proxy', '-', 'ready, 0 restarts', 'ok'],
      ['node-2', '-', 'ready, 3 restarts', '-', 'ok'],
      [''],
    ]);
  });

  test.each([
    ['nftables', 'whose tables kube-proxy deletes before it serves anything'],
    ['iptables', 'and kube-proxy in ipvs mode leaves those of its rules that reject connections'],
  ])('back from %s mode to ipvs mode is refused, except with --force', async (mode, reason) => {
    await run('start', 'node-1');
    await kubectl.put('our-config-maps', 'kube-ipvs-proxy-5f6c\n');
    await kubectl.put('configmap/kube-ipvs-proxy-5f6c/config.conf', CONFIG.replace('"ipvs"', mode));
    await kubectl.put('asked', '');
    const { status, stderr } = await run('back', 'node-1');
    expect(status).toBe(1);
    expect(stderr).toContain(`migrate: kube-ipvs-proxy runs in ${mode} mode, ${reason}: change its mode to ipvs first`);
    expect(await kubectl.changes()).toEqual([]);
    expect(await run('back', '--force', 'node-1')).toMatchObject({ status: 0, stderr: '' });
    await kubectl.put('configmap/kube-ipvs-proxy-5f6c/config.conf', CONFIG);
    await run('start', 'node-1');
    expect(await run('back', 'node-1')).toMatchObject({ status: 0, stderr: '' });
  });

  test.each([
    ['nftables', 'which flushes IPVS before it serves anything'],
    ['iptables', 'which does not adopt what kube-ipvs-proxy wrote'],
  ])('back to %s mode takes kube-ipvs-proxy in that mode', async (mode, reason) => {
    await run('start', 'node-1');
    const inThatMode = CONFIG.replace('"ipvs"', mode);
    await kubectl.put('configmap/kube-proxy/config.conf', inThatMode);
    await kubectl.put('our-config-maps', 'kube-ipvs-proxy-5f6c\n');
    await kubectl.put('configmap/kube-ipvs-proxy-5f6c/config.conf', CONFIG);
    await kubectl.put('asked', '');
    const { status, stderr } = await run('back', 'node-1');
    expect(status).toBe(1);
    expect(stderr).toContain(`${reason}: change the mode of kube-ipvs-proxy to ${mode} first`);
    expect(await kubectl.changes()).toEqual([]);
    await kubectl.put('configmap/kube-ipvs-proxy-5f6c/config.conf', inThatMode);
    expect(await run('back', 'node-1')).toMatchObject({ status: 0, stderr: '' });
  });

  test('--timeout may begin with a zero', async () => {
    expect(await run('start', '--timeout', '08', 'node-1')).toMatchObject({ status: 0, stderr: '' });
  });

  test('start stops at the first node that does not become ready, and shows the log', async () => {
    await kubectl.put('broken', '');
    const { status, stderr } = await run('start', '--timeout', '1', 'node-1', 'node-2');
    expect(status).toBe(1);
    expect(stderr).toBe(
      'the log of the Pod\nmigrate: node-1 is not healthy after 1 s, and no further node was moved. The way back: migrate back node-1\n',
    );
    expect(await kubectl.changes()).not.toContain('label node node-2 service-proxy=kube-ipvs-proxy --overwrite');
  });

  test.each([
    ['Error from server (ServiceUnavailable): the server is currently unable to handle the request', 1],
    ['Error from server (ServiceUnavailable): error trying to reach service: dial tcp: i/o timeout', 0],
  ])('the node responds %j', async (health, expected) => {
    await kubectl.put('health', health);
    expect((await run('start', '--timeout', '1', 'node-1')).status).toBe(expected);
  });

  test('start changes nothing if check finds a reason against it, except with --force', async () => {
    await kubectl.put('kernel', '3.10.0');
    const { status, stderr } = await run('start', 'node-1');
    expect(status).toBe(1);
    expect(stderr).toBe('migrate: nothing was changed; --force starts all the same\n');
    expect(await kubectl.changes()).toEqual([]);
    expect(await run('start', '--force', 'node-1')).toMatchObject({ status: 0 });
  });

  const REFUSED: readonly (readonly [name: string, text: string, says: string])[] = [
    ['selector', '{"kube-proxy":"replaced"}', 'kube-proxy is already barred from every node by its node selector'],
    ['daemonset/kube-ipvs-proxy', '', 'the DaemonSet kube-ipvs-proxy runs on every node'],
    ['configmap/kube-proxy/kubeconfig.conf', 'server: http://x', 'no address of the API server in the kubeconfig'],
  ];

  test.each(REFUSED)('start with %s %j changes nothing', async (name, text, says) => {
    await kubectl.put(name, text);
    const { status, stderr } = await run('start', 'node-1');
    expect(status).toBe(1);
    expect(stderr).toContain(`migrate: ${says}`);
    expect(await kubectl.changes()).toEqual([]);
  });

  test('start without a configuration file of kube-proxy says what to do', async () => {
    await kubectl.remove('configmap/kube-proxy/config.conf');
    await kubectl.put('flags', '--proxy-mode=ipvs\n');
    const { status, stderr } = await run('start', 'node-1');
    expect(status).toBe(1);
    expect(stderr).toContain(
      'kube-proxy has no configuration file to take over: install it with the component labelled-nodes',
    );
    expect(await kubectl.changes()).toEqual([]);
  });
});

describe('the arguments of migrate', () => {
  const WRONG: readonly (readonly [args: readonly string[], says: string])[] = [
    [[], 'a verb is missing: check, shadow, start, status or back (--help explains them)'],
    [['stop'], 'unknown verb: stop (check, shadow, start, status or back)'],
    [['check', '--fast'], 'unknown option: --fast (--help lists them all)'],
    [['start', '--image'], '--image needs a value'],
    [['start', '--image', 'a b', 'node-1'], 'this is no name of an image: a b'],
    [['start', '--overlay', 'none', 'node-1'], '--overlay is privileged or restricted, not: none'],
    [['status', '--timeout', 'x'], '--timeout is a number of seconds, not: x'],
    [['start'], 'start needs at least one node'],
    [['back'], 'back needs at least one node, or --all'],
    [['back', '--all', 'node-1'], 'back --all takes no nodes'],
    [['shadow', '--remove', 'node-1'], 'shadow --remove takes no nodes'],
    [['shadow', 'node-3'], 'there is no node node-3: see kubectl get nodes'],
    [['start', 'node-3'], 'there is no node node-3: see kubectl get nodes'],
    [['check', 'node'], 'there is no node node: see kubectl get nodes'],
    [['start', 'node-.'], 'there is no node node-.: see kubectl get nodes'],
  ];

  test.each(WRONG)('%j', async (args, says) => {
    expect(await run(...args)).toMatchObject({ status: 1, stderr: `migrate: ${says}\n` });
  });

  test('--help needs no cluster, and explains every verb and option', async () => {
    await kubectl.remove('nodes');
    const { status, stdout } = await run('--help');
    expect(status).toBe(0);
    const script = await readFile(SCRIPT, 'utf8');
    const options = Array.from(script.matchAll(/^ {4}(--[a-z]+)\)/gm), ([, option]) => option ?? '');
    expect(options.length).toBeGreaterThan(5);
    for (const word of ['check', 'shadow', 'start', 'status', 'back', ...options]) expect(stdout).toContain(word);
  });

  test('a cluster that does not respond', async () => {
    await kubectl.remove('nodes');
    expect(await run('status', '--context', 'none')).toMatchObject({
      status: 1,
      stderr: 'migrate: no cluster answers: see kubectl config get-contexts\n',
    });
  });
});
