import { readFile, stat } from 'node:fs/promises';

import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';

import { type CommandResult, runCommand } from '../../../test/bed/command.ts';
import { patient } from '../../../test/bed/patience.ts';

jest.setTimeout(patient(60_000));

// What the daemon and its tests require of the kernel, checked with the system's tools.
describe('the test kernel', () => {
  const netns = `harness-${process.pid}`;
  const inside = (...argv: string[]): Promise<CommandResult> => runCommand(['ip', 'netns', 'exec', netns, ...argv]);

  const feed = (input: string, ...argv: string[]): Promise<CommandResult> =>
    runCommand(['ip', 'netns', 'exec', netns, ...argv], { input });

  beforeEach(async () => {
    await runCommand(['ip', 'netns', 'add', netns]);
    // Without any address IPVS takes every IPv4 destination for a broadcast address.
    await inside('ip', 'link', 'set', 'lo', 'up');
  });

  afterEach(async () => {
    await runCommand(['ip', 'netns', 'del', netns]);
  });

  test('the test kernel reports its kind and release', () => {
    expect(process.env['KERNEL_USED']).toMatch(/^(native|uml|qemu|uml-nft)$/);
  });

  test('IPVS has every scheduler', async () => {
    const schedulers = ['rr', 'wrr', 'lc', 'wlc', 'lblc', 'lblcr', 'dh', 'sh', 'mh', 'sed', 'nq', 'fo', 'ovf'];
    const services = schedulers.map((scheduler, n) => `-A -t 10.202.0.1:${1000 + n} -s ${scheduler}`);
    await feed(`${services.join('\n')}\n`, 'ipvsadm', '-R');
    expect((await inside('ipvsadm', '-Sn')).stdout.trim().split('\n').toSorted()).toEqual(services);
  });

  test('IPVS keeps virtual and real servers of TCP, UDP and SCTP, IPv4 and IPv6, each namespace its own', async () => {
    const lines = [
      '-A -t 10.202.0.1:80 -s rr',
      '-a -t 10.202.0.1:80 -r 10.201.0.10:8080 -m -w 3',
      '-A -u 10.202.0.1:53 -s rr',
      '-a -u 10.202.0.1:53 -r 10.201.0.10:5353 -m -w 3',
      '-A --sctp-service 10.202.0.1:99 -s rr',
      '-a --sctp-service 10.202.0.1:99 -r 10.201.0.10:99 -m -w 3',
      '-A -t [fd00:202::1]:80 -s rr',
      '-a -t [fd00:202::1]:80 -r [fd00:201::10]:8080 -m -w 3',
    ];
    await feed(`${lines.join('\n')}\n`, 'ipvsadm', '-R');
    const saved = (await inside('ipvsadm', '-Sn')).stdout;
    expect(saved.trim().split('\n').toSorted()).toEqual(lines.toSorted());
    expect((await runCommand(['ipvsadm', '-Sn'])).stdout).toBe('');
  });

  test('ipset has every type', async () => {
    const entries = {
      'bitmap:port': '30080',
      'hash:ip': '10.0.0.1',
      'hash:ip,port': '10.0.0.1,tcp:80',
      'hash:ip,port,ip': '10.0.0.1,tcp:80,10.0.0.2',
      'hash:ip,port,net': '10.0.0.1,sctp:80,10.1.0.0/16',
      'hash:net': '10.1.0.0/16',
      'hash:net,iface': '10.1.0.0/16,eth0',
      'hash:net,port': '10.1.0.0/16,udp:53',
    };
    const lines = Object.entries(entries).flatMap(([type, entry]) => {
      const range = type === 'bitmap:port' ? ' range 0-65535' : '';
      return [`create set-${type} ${type}${range}`, `add set-${type} ${entry}`];
    });
    await feed(`${lines.join('\n')}\n`, 'ipset', 'restore');
    const saved = (await inside('ipset', 'save')).stdout;
    for (const [type, entry] of Object.entries(entries)) {
      expect(saved).toContain(`add set-${type} ${entry}\n`);
    }
  });

  test.each(['iptables', 'ip6tables'])(
    '%s filters and translates with sets, marks and masquerade',
    async (iptables) => {
      const family = iptables === 'iptables' ? 'inet' : 'inet6';
      await inside('ipset', 'create', 'probe', 'hash:ip,port', 'family', family);
      const rule = (...argv: string[]): Promise<CommandResult> => inside(iptables, ...argv);
      await rule('-t', 'nat', '-A', 'PREROUTING', '-m', 'set', '--match-set', 'probe', 'dst,dst', '-j', 'ACCEPT');
      await rule(
        '-t',
        'nat',
        '-A',
        'OUTPUT',
        '-m',
        'comment',
        '--comment',
        'a mark',
        '-j',
        'MARK',
        '--or-mark',
        '0x4000',
      );
      await rule('-t', 'nat', '-A', 'POSTROUTING', '-m', 'mark', '--mark', '0x4000/0x4000', '-j', 'MASQUERADE');
      await rule(
        '-A',
        'INPUT',
        '-m',
        'conntrack',
        '--ctstate',
        'NEW',
        '-m',
        'addrtype',
        '--dst-type',
        'LOCAL',
        '-j',
        'REJECT',
      );
      await rule('-A', 'FORWARD', '-m', 'ipvs', '--ipvs', '-m', 'physdev', '!', '--physdev-is-in', '-j', 'DROP');
      const saved = (await inside(`${iptables}-save`)).stdout;
      expect(saved).toMatch(/-A PREROUTING -m set --match-set probe dst,dst -j ACCEPT/);
      expect(saved).toMatch(/-A POSTROUTING -m mark --mark 0x4000\/0x4000 -j MASQUERADE/);
      expect(saved).toMatch(/-A FORWARD .*-m ipvs.* --ipvs/);
    },
  );

  test('a dummy interface takes addresses of both families', async () => {
    await inside('ip', 'link', 'add', 'kube-ipvs0', 'type', 'dummy');
    await inside('ip', 'addr', 'add', '10.202.0.1/32', 'dev', 'kube-ipvs0');
    await inside('ip', 'addr', 'add', 'fd00:202::1/128', 'dev', 'kube-ipvs0', 'nodad');
    const shown = (await inside('ip', '-brief', 'addr', 'show', 'kube-ipvs0')).stdout;
    expect(shown).toMatch(/10\.202\.0\.1\/32.*fd00:202::1\/128/);
  });

  test('conntrack entries can be made, listed and deleted', async () => {
    const tuple = ['-p', 'udp', '-s', '10.0.0.1', '-d', '10.0.0.2', '--sport', '1000', '--dport', '53'];
    await inside('conntrack', '-I', ...tuple, '-t', '60');
    expect((await inside('conntrack', '-L')).stdout).toMatch(/src=10\.0\.0\.1 dst=10\.0\.0\.2 sport=1000 dport=53/);
    await inside('conntrack', '-D', ...tuple);
    expect((await inside('conntrack', '-L')).stdout).toBe('');
  });

  test.each(['net/ipv4/vs/conntrack', 'net/bridge/bridge-nf-call-iptables', 'net/ipv4/vs/expire_nodest_conn'])(
    'each network namespace has its own %s',
    async (name) => {
      const before = (await inside('cat', `/proc/sys/${name}`)).stdout.trim();
      const other = before === '0' ? '1' : '0';
      await feed(other, 'tee', `/proc/sys/${name}`);
      expect((await inside('cat', `/proc/sys/${name}`)).stdout.trim()).toBe(other);
    },
  );

  test('modprobe finds modules as on a node', async () => {
    await expect(runCommand(['modprobe', 'ip_vs_rr'])).resolves.toMatchObject({ status: 0 });
    await expect(runCommand(['modprobe', 'no_such_module'])).rejects.toThrow('not found');
  });

  test('a native run inside this kernel has its own namespaces', async () => {
    const script = 'echo "$KERNEL_USED"; ls /sys/class/net; iptables -t nat -S POSTROUTING; exit 9';
    await inside('iptables', '-t', 'nat', '-A', 'POSTROUTING', '-j', 'MASQUERADE');
    const ended = await runCommand(['ip', 'netns', 'exec', netns, 'lab/kernel/run.sh', 'sh', '-c', script], {
      allowFailure: true,
      env: { ...process.env, KERNEL: 'native' },
    });
    expect(ended.stdout).toMatch(/^native\nlo\n-P POSTROUTING ACCEPT\n$/);
    expect(ended.status).toBe(9);
  });

  test.each(['nft', 'legacy'])(
    'TEST_IPTABLES=%s makes plain iptables that variant, or the run fails',
    async (variant) => {
      const served = await inside(`iptables-${variant}`, '-t', 'nat', '-A', 'POSTROUTING', '-j', 'MASQUERADE').then(
        () => true,
        () => false,
      );
      const ended = await runCommand(
        ['lab/kernel/run.sh', 'sh', '-c', 'iptables --version; ip6tables-save --version'],
        {
          allowFailure: true,
          env: { ...process.env, KERNEL: 'native', TEST_IPTABLES: variant },
        },
      );
      const name = variant === 'nft' ? 'nf_tables' : 'legacy';
      const said = served
        ? new RegExp(`^iptables .*\\(${name}\\)\nip6tables-save .*\\(${name}\\)\n`)
        : new RegExp(`"it cannot serve iptables-${variant}, which TEST_IPTABLES asks for"`);
      expect(ended.stdout + ended.stderr).toMatch(said);
    },
  );

  test('/tmp is in memory and separate from the machine', async () => {
    const mounts = await readFile('/proc/self/mounts', 'utf8');
    expect(mounts).toMatch(/^tmpfs \/tmp tmpfs/m);
    expect((await stat('/tmp')).mode & 0o7777).toBe(0o1777);
  });
});
