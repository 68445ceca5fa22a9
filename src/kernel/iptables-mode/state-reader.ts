import { compareCidr, parseCidr } from '../../base/cidr.ts';
import { type IpAddress, type IpFamily, familyOf, parseIp } from '../../base/ip.ts';
import { ownCopy } from '../../base/text/own-copy.ts';
import { toPort } from '../../base/port.ts';
import { sortedUnique } from '../../base/sorted-unique.ts';
import { Yielder } from '../../base/yielder.ts';
import { type AddressTraits, type AdmittedSources, addressTraits } from '../../state/address-traits.ts';
import type { IpSetEntry } from '../../state/ip-set.ts';
import { setName } from '../../state/set-roles.ts';
import type { Endpoint } from '../../state/real-server.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import type { SavedTables } from '../iptables/iptables-save.ts';
import type { ServiceState } from '../service-ops.ts';
import { type ParsedRule, parseRule } from './parsed-rule.ts';
import { hostText } from './render/rule-text.ts';
import { ProxyState, servicePortKey, sortedEndpoints } from './proxy-state.ts';
import {
  ADMITS_ITSELF,
  type ServedAddressKind,
  EXTERNAL_SERVICES,
  FIREWALL,
  KIND_TEXTS,
  MARK_CHAIN,
  NODE_PORTS,
  SERVICES,
  SOURCE_KEPT,
  type Table,
} from './render/service-port.ts';

/** Returns what the chains of a family mean, of this program or of kube-proxy. Rules that mean nothing are left out. */
export async function readState(saved: SavedTables, family: IpFamily): Promise<ProxyState> {
  const reader = new StateReader(saved, family);
  await reader.read();
  return reader.state;
}

const KINDS = Object.entries(KIND_TEXTS) as [ServedAddressKind, string][];

interface Dispatch {
  readonly id: VirtualServerId;
  readonly name: string;
  readonly kind: ServedAddressKind;
  readonly target: string;
}

class StateReader {
  readonly state: ProxyState;
  readonly #saved: SavedTables;
  readonly #family: IpFamily;
  readonly #yielder = new Yielder();
  /** The meaning of each chain that chooses among endpoints: many addresses of a Service may share one. */
  readonly #choices = new Map<string, ServiceState>();

  constructor(saved: SavedTables, family: IpFamily) {
    this.#saved = saved;
    this.#family = family;
    this.state = new ProxyState(family);
  }

  async read(): Promise<void> {
    await this.#each('filter', NODE_PORTS, (rule) => this.#readHealthCheck(rule));
    await this.#each('nat', SERVICES, (rule) => this.#readServiceRule(rule));
    for (const chain of [SERVICES, EXTERNAL_SERVICES]) {
      await this.#each('filter', chain, (rule) => this.#readRejection(rule));
    }
    await this.#each('filter', FIREWALL, (rule) => this.#readFirewall(rule));
    // Other rules for the same address and port come first.
    await this.#each('nat', NODE_PORTS, (rule) => this.#readNodePort(rule));
  }

  async #each(table: Table, chain: string, read: (rule: ParsedRule) => void): Promise<void> {
    for (const rule of this.#rules(table, chain)) {
      read(parseRule(rule));
      if (this.#yielder.due) await this.#yielder.yieldIfDue();
    }
  }

  #rules(table: Table, chain: string): readonly string[] {
    return this.#saved.get(table)?.get(chain) ?? [];
  }

  #parsed(table: Table, chain: string): readonly ParsedRule[] {
    return this.#rules(table, chain).map(parseRule);
  }

  #addEntry(role: 'NODE-PORT-IP' | 'HEALTH-CHECK-NODE-PORT', entry: IpSetEntry): void {
    this.state.setEntry(setName(role, this.#family), entry, true);
  }

  #readHealthCheck({ port, target }: ParsedRule): void {
    if (port !== undefined && target === 'ACCEPT') {
      this.#addEntry('HEALTH-CHECK-NODE-PORT', { type: 'bitmap:port', port });
    }
  }

  #readServiceRule(rule: ParsedRule): void {
    const { destination, target } = rule;
    if (destination !== undefined && target === NODE_PORTS && rule.protocol === undefined) {
      this.#addEntry('NODE-PORT-IP', { type: 'hash:ip', address: destination });
      return;
    }
    const id = this.#idOf(rule);
    const said = KINDS.find(([, text]) => rule.comment?.endsWith(` ${text}`) === true);
    if (id === undefined || said === undefined || target === undefined || rule.comment === undefined) return;
    const [kind, text] = said;
    this.#addServed({ id, kind, name: ownCopy(rule.comment.slice(0, -text.length - 1)), target });
  }

  #idOf({ destination, protocol, port }: ParsedRule): VirtualServerId | undefined {
    if (destination === undefined || protocol === undefined || port === undefined) return undefined;
    return familyOf(destination) === this.#family ? { address: destination, protocol, port } : undefined;
  }

  #addServed(dispatch: Dispatch): void {
    const { id, kind, name } = dispatch;
    if (this.state.server(id) !== undefined) return;
    const way = this.#followWay(dispatch);
    if (way === undefined) return;
    const { choice: state, keepsSource, admitted } = way;
    const shared = this.state.shared(servicePortKey(name, id.protocol), state);
    this.state.setServer(id, { id, name, state: shared, traits: traitsOf(kind, keepsSource, admitted) });
  }

  /** Follows the chains to the endpoints. Undefined if they do not lead to a chain that chooses among endpoints. */
  #followWay({ id, target }: Dispatch) {
    let chain = target;
    let admitted: AdmittedSources | undefined;
    if (chain.startsWith('KUBE-FW-')) {
      const rules = this.#parsed('nat', chain).filter((rule) => rule.target !== undefined);
      admitted = sourcesIn(rules, id);
      // Without a range, nobody is admitted, and no rule leads to the endpoints.
      chain = rules[0]?.target ?? chain.replace('-FW-', '-EXT-');
    }
    let keepsSource = true;
    if (chain.startsWith('KUBE-EXT-')) {
      const rules = this.#rules('nat', chain);
      keepsSource = !rules.some((rule) => rule.endsWith(` -j ${MARK_CHAIN}`) && !rule.includes('--src-type'));
      chain = targetOf(rules.at(-1) ?? '') ?? '';
    }
    if (!/^KUBE-SV[CL]-/.test(chain)) return undefined;
    return { keepsSource, admitted, choice: this.#choiceOf(chain) };
  }

  #choiceOf(chain: string): ServiceState {
    let choice = this.#choices.get(chain);
    if (choice === undefined) this.#choices.set(chain, (choice = this.#readChoice(chain)));
    return choice;
  }

  #readChoice(chain: string): ServiceState {
    let affinity = 0;
    const endpoints = new Map<string, Endpoint>();
    for (const rule of this.#rules('nat', chain)) {
      const target = targetOf(rule);
      if (target?.startsWith('KUBE-SEP-') !== true) continue;
      const seconds = / --rcheck --seconds (\d+)/.exec(rule)?.[1];
      if (seconds !== undefined) {
        affinity = Number(seconds);
        continue;
      }
      const endpoint = endpoints.has(target) ? undefined : this.#endpointOf(target);
      if (endpoint !== undefined) endpoints.set(target, endpoint);
    }
    return { affinity, endpoints: sortedEndpoints(endpoints.values()) };
  }

  #endpointOf(chain: string): Endpoint | undefined {
    for (const rule of this.#rules('nat', chain)) {
      const [, bracketed, plain, number] = / --to-destination (?:\[([^\]]+)\]|([^:\s]+)):(\d+)/.exec(rule) ?? [];
      const address = parseIp(bracketed ?? plain ?? '');
      const port = toPort(Number(number));
      if (address !== undefined && port !== undefined && familyOf(address) === this.#family) return { address, port };
    }
    return undefined;
  }

  #readRejection(rule: ParsedRule): void {
    const id = this.#idOf(rule);
    const [, whole] = /^(.*) has no endpoints$/.exec(rule.comment ?? '') ?? [];
    const said = whole?.replace(SOURCE_KEPT, '');
    if (id === undefined || said === undefined || rule.target !== 'REJECT' || this.state.server(id) !== undefined)
      return;
    const found = KINDS.find(([, text]) => said.endsWith(` ${text}`));
    if (found === undefined) return;
    const [kind, text] = found;
    const name = said.slice(0, -text.length - 1);
    this.state.setServer(id, {
      id,
      name,
      state: { affinity: 0, endpoints: [] },
      traits: traitsOf(kind, kind === 'cluster' || said !== whole),
    });
  }

  /**
   * Reads the clients that a load balancer IP without endpoints admits. One with endpoints has a chain in table nat.
   */
  #readFirewall(rule: ParsedRule): void {
    const id = this.#idOf(rule);
    if (id === undefined || rule.target?.startsWith('KUBE-FW-') !== true) return;
    const server = this.state.server(id);
    if (server?.traits?.kind !== 'loadBalancer' || server.state.endpoints.length > 0) return;
    const admitting = this.#parsed('filter', rule.target).filter(({ target }) => target === 'RETURN');
    const traits = traitsOf('loadBalancer', server.traits.keepsSource, sourcesIn(admitting, id));
    this.state.setServer(id, { ...server, traits });
  }

  #readNodePort(rule: ParsedRule): void {
    const { protocol, port, comment: name, target } = rule;
    if (protocol === undefined || port === undefined || name === undefined || target === undefined) return;
    const addresses: readonly IpAddress[] =
      rule.destination === undefined ? this.state.nodePortAddresses() : [rule.destination];
    for (const address of addresses)
      this.#addServed({ id: { address, protocol, port }, kind: 'nodePort', name, target });
  }
}

function traitsOf(
  kind: ServedAddressKind,
  keepsSource: boolean,
  admitted?: AdmittedSources,
): AddressTraits | undefined {
  if (kind === 'address') return undefined;
  return addressTraits(kind, keepsSource, kind === 'loadBalancer' ? admitted : undefined);
}

/** Returns which clients these rules admit to an address. */
function sourcesIn(rules: readonly ParsedRule[], { address }: VirtualServerId): AdmittedSources {
  const [own, others] = [true, false].map((isOwn) =>
    rules.filter(({ comment }) => (comment?.endsWith(ADMITS_ITSELF) === true) === isOwn),
  );
  const ranges = (others ?? []).flatMap(({ source }) => (source === undefined ? [] : (parseCidr(source) ?? [])));
  return {
    ranges: sortedUnique(ranges, compareCidr),
    itself: own?.some(({ source }) => source === hostText(address)) === true,
  };
}

function targetOf(rule: string): string | undefined {
  return / ?-j (\S+)$/.exec(rule)?.[1];
}
