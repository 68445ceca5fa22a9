import type { Flow, Kernel } from '../../src/kernel/kernel.ts';
import { createIpvsKernel } from '../../src/kernel/ipvs/ipvs-kernel.ts';
import { type IpAddress, formatIp, isIp4 } from '../../src/base/ip.ts';
import { unreachable } from '../../src/base/unreachable.ts';
import type { PlanConfig } from '../../src/plan/plan-config.ts';
import { formatIpSetEntry } from '../../src/state/ip-set.ts';
import type { Op } from '../../src/state/op.ts';
import { virtualServerKey } from '../../src/state/virtual-server.ts';
import { runCommand } from '../bed/command.ts';
import { Reconciling, TestLog } from '../support/reconciling.ts';
import { listed } from '../support/objects.ts';
import { address } from '../support/state.ts';
import { CONFIGS, NODE_SETTINGS } from './configs.ts';
import { type Deed, isOp } from './acts.ts';
import type { FaultBed } from './fault-bed.ts';
import { HostileShell } from './hostile-shell.ts';
import { SparedRules } from './spared-rules.ts';
import { SETTING_LINES, addressLine, realServerLine, setLine, timeoutLine, virtualServerLine } from './state-lines.ts';
import { addressLines, ruleLines, setLines } from './tool-lines.ts';
import { Transaction } from '../../src/state/transaction.ts';

/** Virtual servers of other programs. One uses the port of one of our NodePorts. */
const FOREIGN_SERVERS = [
  '-A -t 10.99.0.1:80 -s rr',
  '-A -u 172.16.9.1:9000 -s rr',
  '-a -t 10.99.0.1:80 -r 10.98.0.1:80 -m -w 7',
  '-A -u [fd00:99::1]:53 -s wlc -p 300',
  '-A -t 10.99.0.2:30080 -s sh',
];
const FOREIGN_SETS = ['create others hash:ip', 'add others 10.99.0.9'];
const FOREIGN_RULES = [
  '*mangle\n-A FORWARD -p tcp --dport 22 -j ACCEPT\nCOMMIT',
  '*nat\n-N OTHERS\n-A PREROUTING -j OTHERS\nCOMMIT',
  '*filter\n-A INPUT -p tcp --dport 22 -j ACCEPT\n-A FORWARD -p tcp --dport 23 -j DROP\nCOMMIT',
].join('\n');
const NODE_ADDRESSES = ['192.168.9.1', 'fd00:9::1'];
/** On another interface. Another program has a virtual server at this address. */
const FOREIGN_ADDRESS = '172.16.9.1';

/**
 * Every tenth history, and every one whose rules were touched, is read with the system's tools instead of our decoder.
 * Every tenth history also reads rules at each check (see SparedRules).
 */
const TOOLS_EVERY = 10;

/** A real kernel, in a network namespace shared by all histories: each starts with the state left by the last one. */
export class LinuxFaultBed implements FaultBed, AsyncDisposable {
  readonly #rulesOfOurs: SparedRules;
  /** Writes to the kernel as another program. */
  readonly #others: Kernel;
  readonly #shell: HostileShell;
  readonly #nodeAddresses = new Set<IpAddress>([...NODE_ADDRESSES, FOREIGN_ADDRESS].map(address));
  readonly #rules = new Map<PlanConfig, Promise<readonly string[]>>();
  #rulesTouched = true;

  private constructor(netns: string | undefined) {
    const options = { log: new TestLog(), ...(netns === undefined ? {} : { netns: `/run/netns/${netns}` }) };
    this.#rulesOfOurs = new SparedRules(createIpvsKernel(options));
    this.#others = createIpvsKernel(options);
    this.#shell = new HostileShell(netns);
  }

  /** Sets up a new network namespace: `netns`, or that of this process, where starting a program costs half as much. */
  static async make(netns?: string): Promise<LinuxFaultBed> {
    const bed = new LinuxFaultBed(netns);
    await bed.#shell.run(
      [
        'ip link set lo up',
        'for i in eth0 eth9; do ip link add $i type dummy; ip link set $i up; done',
        ...NODE_ADDRESSES.map((text) => addAddress(address(text), 'eth0')),
        addAddress(address(FOREIGN_ADDRESS), 'eth9'),
        feed(FOREIGN_SERVERS.join('\n'), 'ipvsadm -R'),
        feed(FOREIGN_SETS.join('\n'), 'ipset restore'),
        resetRules(4),
        resetRules(6),
      ].join('\n'),
    );
    return bed;
  }

  get kernel(): Kernel {
    return this.#rulesOfOurs.kernel;
  }

  get nodeAddresses(): readonly IpAddress[] {
    return [...this.#nodeAddresses];
  }

  /** Call before each history. */
  begin(history: number): void {
    this.#rulesOfOurs.sparing = history % TOOLS_EVERY !== 0;
  }

  async act(deeds: readonly Deed[]): Promise<void> {
    const ops: Op[] = [];
    const script: string[] = [];
    for (const deed of deeds) {
      if (isOp(deed)) ops.push(deed);
      else script.push(this.#command(deed));
    }
    if (ops.length > 0) await this.#others.apply(new Transaction(ops));
    if (script.length === 0) return;
    await this.#shell.run(script.join('\n'));
    // A check that ran beside the script may have read the rules before it.
    if (this.#rulesTouched) this.#rulesOfOurs.touched();
  }

  async standing(config: PlanConfig, history: number): Promise<readonly string[]> {
    const servers = [...FOREIGN_SERVERS, ...SETTING_LINES];
    if (!this.#byTools(history)) return servers;
    let rules = this.#rules.get(config);
    if (rules === undefined) this.#rules.set(config, (rules = rulesOf(config)));
    const addresses = [...this.#nodeAddresses].map(formatIp);
    return [
      ...servers,
      ...FOREIGN_SETS,
      ...addresses.map((text) => `${text === FOREIGN_ADDRESS ? 'eth9' : 'eth0'} ${text}`),
      'device',
      ...(await rules),
    ];
  }

  async found(history = 1): Promise<readonly string[]> {
    if (!this.#byTools(history)) return await this.#decoded();
    this.#rulesTouched = false;
    const texts = (await this.#shell.run(PRINT_STATE)).split('=====\n');
    const [servers = '', sets = '', addresses = '', rules4 = '', rules6 = ''] = texts;
    return [
      ...servers.split('\n').filter((line) => line !== ''),
      ...setLines(sets),
      ...addressLines(addresses),
      ...ruleLines(4, rules4),
      ...ruleLines(6, rules6),
      ...(await this.#settings()),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#shell.close();
    await this.#others.close();
    await this.kernel.close();
  }

  /** Returns sysctls and timeouts, read by our own code: the tools would cost one process each. */
  async #settings(): Promise<string[]> {
    const sysctls = NODE_SETTINGS.sysctls.map(async ([key]) => `sysctl ${key} ${await this.#others.getSysctl(key)}`);
    return [...(await Promise.all(sysctls)), timeoutLine(await this.#others.getIpvsTimeouts())];
  }

  #byTools(history: number): boolean {
    return history % TOOLS_EVERY === 0 || this.#rulesTouched;
  }

  async #decoded(): Promise<string[]> {
    const kernel = this.#others;
    const services = await kernel.getVirtualServers();
    const servers = await kernel.getRealServers(services);
    const lines = services.flatMap((service) => [
      virtualServerLine(service),
      ...(servers.get(virtualServerKey(service)) ?? []).map((server) => realServerLine(service, server)),
    ]);
    for (const set of await kernel.getSets()) {
      lines.push(setLine(set), ...set.entries.map((entry) => `add ${set.name} ${formatIpSetEntry(entry)}`));
    }
    return [...lines, ...(await this.#settings()), ...(await kernel.getBoundAddresses()).map(addressLine)];
  }

  #touchRules(): void {
    this.#rulesTouched = true;
    this.#rulesOfOurs.touched();
  }

  #command(deed: Exclude<Deed, Op>): string {
    switch (deed.kind) {
      case 'delete-device':
        return 'ip link del kube-ipvs0';
      case 'set-device':
        return `ip link set kube-ipvs0 ${deed.to}`;
      case 'change-address':
        return `ip addr change ${formatIp(deed.address)} dev kube-ipvs0 preferred_lft forever`;
      case 'set-sysctl':
        return `echo ${deed.value} > /proc/sys/${deed.key}`;
      case 'set-timeouts':
        return `ipvsadm --set ${deed.timeouts.tcp} ${deed.timeouts.tcpFin} ${deed.timeouts.udp}`;
      case 'clear-virtual-servers':
        return `ipvsadm -C; ${feed(FOREIGN_SERVERS.join('\n'), 'ipvsadm -R')}`;
      case 'flush-set':
        return `ipset flush ${deed.name}`;
      case 'shrink-set': {
        const { name, type, family } = deed.set;
        const size = `family ${family === 4 ? 'inet' : 'inet6'} maxelem 4`;
        return `ipset create smaller ${type} ${size} && ipset swap smaller ${name}; ipset destroy smaller`;
      }
      case 'hold-lock-of-iptables':
        return 'flock -x /run/xtables.lock sleep 0.3 > /dev/null 2>&1 &';
      case 'add-flow':
        return flowCommand(deed.flow);
      case 'retype-set': {
        this.#touchRules();
        const { name, type, family } = deed.set;
        const create = `ipset create ${name} ${type} family ${family === 4 ? 'inet' : 'inet6'}`;
        return `${resetRules(4)}\n${resetRules(6)}\nipset destroy ${name}; ${create}`;
      }
      case 'delete-rules':
        this.#touchRules();
        return resetRules(deed.family);
      case 'flush-chain':
        this.#touchRules();
        return `${iptables(deed.family)} -t ${deed.table} -F ${deed.chain}`;
      case 'delete-jump':
        this.#touchRules();
        return `${iptables(deed.family)} -t nat -D ${deed.chain} 1`;
      case 'destroy-sets':
        this.#touchRules();
        return `${resetRules(4)}\n${resetRules(6)}\nipset -n list | sed -n 's/^KUBE-/destroy &/p' | ipset -! restore`;
      case 'add-node-address':
        this.#nodeAddresses.add(deed.address);
        return addAddress(deed.address, 'eth0');
      case 'delete-node-address':
        this.#nodeAddresses.delete(deed.address);
        return `ip addr del ${withPrefix(deed.address)} dev eth0`;
      default:
        return unreachable(deed);
    }
  }
}

const PRINT_STATE = ['ipvsadm -Sn', 'ipset save', 'ip -j addr', 'iptables-save', 'ip6tables-save'].join(
  '\necho =====\n',
);

function iptables(family: 4 | 6): string {
  return family === 4 ? 'iptables' : 'ip6tables';
}

function flowCommand(flow: Flow): string {
  const [source, destination, from] = [flow.source, flow.destination, flow.replySource].map(formatIp);
  return (
    `conntrack -I -p udp -t 300 -s ${source} -d ${destination} --sport ${flow.sourcePort} --dport ${flow.destinationPort} ` +
    `-r ${from} -q ${source} --reply-port-src ${flow.replySourcePort} --reply-port-dst ${flow.sourcePort}`
  );
}

/** Returns a command that removes all rules except those of others. */
function resetRules(family: 4 | 6): string {
  return feed(FOREIGN_RULES, `${iptables(family)}-restore`);
}

function feed(text: string, program: string): string {
  return `${program} <<'EOF'\n${text}\nEOF`;
}

function withPrefix(one: IpAddress): string {
  return `${formatIp(one)}/${isIp4(one) ? 24 : 64}`;
}

function addAddress(one: IpAddress, device: string): string {
  return `ip addr add ${withPrefix(one)} dev ${device}${isIp4(one) ? '' : ' nodad'}`;
}

/** Returns the rules after a daemon with this configuration has started on a node with only the rules of others. */
async function rulesOf(config: PlanConfig): Promise<readonly string[]> {
  const netns = `faults-rules-${process.pid}-${CONFIGS.indexOf(config)}`;
  await runCommand(['ip', 'netns', 'add', netns]);
  try {
    await using bed = await LinuxFaultBed.make(netns);
    await bed.kernel.prepare();
    const run = new Reconciling(bed.kernel, { plan: config });
    await run.take(...listed([], []));
    await run.reconciler.stop();
    return (await bed.found()).filter((line) => line.startsWith('rule') || line.startsWith('chain'));
  } finally {
    await runCommand(['ip', 'netns', 'del', netns]);
  }
}
