import type { Flow, Kernel, NodeAddress } from '../../src/kernel/kernel.ts';
import { createIpvsKernel } from '../../src/kernel/ipvs/ipvs-kernel.ts';
import { type Cidr, formatCidr } from '../../src/base/cidr.ts';
import { type IpAddress, type IpFamily, formatIp, isIp4 } from '../../src/base/ip.ts';
import { hostPrefix } from '../../src/state/bound-address.ts';
import { runCommand } from '../bed/command.ts';
import type { ContractBed } from './contract-bed.ts';
import { QuietLog } from './quiet-log.ts';

interface IpAddressJson {
  readonly ifname: string;
  readonly addr_info: readonly { readonly local: string; readonly prefixlen: number; readonly scope: string }[];
}

/** The real kernel in a separate network namespace, read with the system's tools. */
export class LinuxBed implements ContractBed {
  static #last = 0;
  readonly kernel: Kernel;
  readonly #reader: Kernel;
  readonly log = new QuietLog();
  readonly netns: string;
  readonly #variant: string;

  private constructor(netns: string, variant: string) {
    this.netns = netns;
    this.#variant = variant;
    const options = { log: this.log, netns: `/run/netns/${netns}` };
    this.kernel = createIpvsKernel(options);
    this.#reader = createIpvsKernel(options);
  }

  /** @param variant of iptables, which a kubelet's hint makes the node's; whatever plain `iptables` is by default */
  static async make(variant?: 'nft' | 'legacy'): Promise<LinuxBed> {
    const netns = `contract-${process.pid}-${++LinuxBed.#last}`;
    await runCommand(['ip', 'netns', 'add', netns]);
    await runCommand(['ip', '-n', netns, 'link', 'set', 'lo', 'up']);
    const bed = new LinuxBed(netns, variant === undefined ? '' : `-${variant}`);
    if (variant !== undefined) await bed.run(`iptables-${variant}`, '-t', 'mangle', '-N', 'KUBE-IPTABLES-HINT');
    return bed;
  }

  async reader(): Promise<Kernel> {
    return await Promise.resolve(this.#reader);
  }

  /** Runs a program in the namespace. */
  async run(program: string, ...args: readonly string[]): Promise<string> {
    return (await runCommand(['ip', 'netns', 'exec', this.netns, program, ...args])).stdout;
  }

  async ipvs(): Promise<string[]> {
    // Since 1.31, ipvsadm also names the default type of a tunnel.
    return lines(await this.run('ipvsadm', '-Sn'))
      .map((line) => line.replace(/ --tun-type ipip$/, ''))
      .sort();
  }

  async sets(): Promise<string[]> {
    const saved = lines(await this.run('ipset', 'save'));
    // Of a set's properties the first two words are stable: name and type.
    return saved.map((line) => (line.startsWith('create ') ? line.split(' ').slice(0, 3).join(' ') : line)).sort();
  }

  async addresses(): Promise<string[] | undefined> {
    const all = JSON.parse(await this.run('ip', '-j', 'addr')) as IpAddressJson[];
    const device = all.find(({ ifname }) => ifname === 'kube-ipvs0');
    // The kernel adds a link-local address to an interface that is up.
    const own = device?.addr_info.filter(({ scope }) => scope !== 'link');
    return own?.map(({ local, prefixlen }) => `${local}/${prefixlen}`).sort();
  }

  async routes(family: IpFamily): Promise<string[]> {
    const shown = await this.run('ip', '-N', `-${family}`, 'route', 'show', 'table', 'local', 'dev', 'lo');
    return lines(shown)
      .filter((line) => line.startsWith('2 ') || line.startsWith('local '))
      .map((line) => line.split(/ +/))
      .map(([, network = '', ...words]) => `${network} ${words[words.indexOf('proto') + 1] ?? ''}`)
      .filter((line) => !line.endsWith(' 2'))
      .sort();
  }

  async addRoute(cidr: Cidr): Promise<void> {
    await this.run('ip', 'route', 'add', 'local', formatCidr(cidr), 'dev', 'lo', 'table', 'local', 'proto', '4');
  }

  async rules(family: IpFamily): Promise<string[]> {
    let table = '';
    const rules: string[] = [];
    for (const line of lines(await this.run(this.#iptables(family, '-save')))) {
      if (line.startsWith('*')) table = line.slice(1);
      else if (line.startsWith('-A ')) rules.push(`${table} ${line}`);
    }
    return rules;
  }

  async flows(family: IpFamily, destinationPort: number): Promise<number> {
    const list = await this.run('conntrack', '-L', '-f', family === 4 ? 'ipv4' : 'ipv6');
    return lines(list).filter((line) => line.split(' dport=')[1]?.startsWith(`${destinationPort} `)).length;
  }

  async addNodeAddress({ interfaceName, address, prefix }: NodeAddress): Promise<void> {
    await this.run('ip', 'link', 'add', interfaceName, 'type', 'dummy');
    await this.run('ip', 'link', 'set', interfaceName, 'up');
    const nodad = typeof address === 'number' ? [] : ['nodad'];
    await this.run('ip', 'addr', 'add', `${formatIp(address)}/${prefix}`, 'dev', interfaceName, ...nodad);
  }

  /** IPv6 as kube-proxy does. IPv4 with other flags than any program: kube-proxy's IPv4 addresses are like ours. */
  async bindAsOthers(address: IpAddress): Promise<void> {
    const details = isIp4(address) ? ['valid_lft', '1000', 'preferred_lft', '1000'] : [];
    await this.run('ip', 'addr', 'add', `${formatIp(address)}/${hostPrefix(address)}`, 'dev', 'kube-ipvs0', ...details);
  }

  async deleteRouteTo(address: IpAddress): Promise<void> {
    await this.run('ip', 'route', 'del', 'local', formatIp(address), 'table', 'local');
  }

  async blockRouteTo(address: IpAddress): Promise<void> {
    await this.deleteRouteTo(address);
    await this.run('ip', 'route', 'add', 'blackhole', formatIp(address), 'table', 'local');
  }

  async deleteDevice(): Promise<void> {
    await this.run('ip', 'link', 'del', 'kube-ipvs0');
  }

  async removeNodeAddress({ interfaceName }: NodeAddress): Promise<void> {
    await this.run('ip', 'link', 'del', interfaceName);
  }

  async flushRules(family: IpFamily): Promise<void> {
    const program = this.#iptables(family);
    for (const table of ['nat', 'filter']) {
      await this.run(program, '-t', table, '-F');
      await this.run(program, '-t', table, '-X');
    }
  }

  async addFlow(flow: Flow): Promise<void> {
    const { protocol, source, destination, sourcePort, destinationPort, replySource, replySourcePort } = flow;
    const state = protocol === 'TCP' ? '--state ESTABLISHED ' : '';
    const words =
      `-I -p ${protocol.toLowerCase()} -t 300 ${state}-s ${formatIp(source)} -d ${formatIp(destination)} ` +
      `--sport ${sourcePort} --dport ${destinationPort} -r ${formatIp(replySource)} -q ${formatIp(source)} ` +
      `--reply-port-src ${replySourcePort} --reply-port-dst ${sourcePort}`;
    await this.run('conntrack', ...words.split(' '));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kernel.close();
    await this.#reader.close();
    await runCommand(['ip', 'netns', 'del', this.netns]);
  }

  #iptables(family: IpFamily, suffix = ''): string {
    return `${family === 4 ? 'iptables' : 'ip6tables'}${this.#variant}${suffix}`;
  }
}

function lines(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}
