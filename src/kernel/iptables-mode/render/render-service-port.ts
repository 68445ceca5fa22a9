import { formatCidr } from '../../../base/cidr.ts';
import type { Cidr } from '../../../base/cidr.ts';
import type { IpAddress } from '../../../base/ip.ts';
import type { RuleSettings } from '../../../state/rules/rule-settings.ts';
import type { VirtualServerId } from '../../../state/virtual-server.ts';
import { endpointChains } from './endpoint-chains.ts';
import { comment, fromNetwork, hostText, reject, toPort, toService } from './rule-text.ts';
import {
  ADMITS_ITSELF,
  type OwnChain,
  EXTERNAL_SERVICES,
  FIREWALL,
  KIND_TEXTS,
  MARK_CHAIN,
  NODE_PORTS,
  type Rendered,
  SERVICES,
  SOURCE_KEPT,
  type ServedAddress,
  type ServicePort,
  type SharedRule,
} from './service-port.ts';
import { type Variant, chainsByAddress, variantsOf } from './variants.ts';

/** What the rules of a service port depend on beside its addresses. */
export interface RenderContext {
  readonly settings: RuleSettings;
  readonly nodePortAddresses: readonly IpAddress[];
  /** Whether an address and port have rules in KUBE-SERVICES, which comes before node ports. */
  readonly hasServiceRule: (id: VirtualServerId) => boolean;
}

/** Returns the chains of a service port, and its rules in shared chains. */
export function renderServicePort(port: ServicePort, context: RenderContext): Rendered {
  const { chains, chosenBy } = endpointChains(port, context.settings);
  const served = port.addresses.filter((address) => chosenBy.has(address));
  const external = externalChains(port, served, chosenBy);
  const firewall = firewallChains(port, served, external.leadTo);
  const leadTo = (address: ServedAddress): string =>
    firewall.leadTo.get(address) ?? external.leadTo.get(address) ?? chosenBy.get(address) ?? '';
  const unserved = port.addresses.filter(({ endpoints }) => endpoints.length === 0);
  const refused = firewallsWithoutEndpoints(port, unserved);
  return {
    chains: [...chains, ...external.chains, ...firewall.chains, ...refused.chains],
    shared: [
      ...served.filter(({ kind }) => kind !== 'nodePort').map((address) => dispatch(port, address, leadTo(address))),
      ...nodePortRules(port, served, leadTo, context),
      ...firewall.shared,
      ...refused.shared,
      ...unserved.map((address) => rejection(port, address)),
    ],
  };
}

/** Chains, the shared rules that belong to them, and the addresses whose rules lead to them. */
interface Chains extends Rendered {
  readonly leadTo: ReadonlyMap<ServedAddress, string>;
}

function isExternal({ kind }: Pick<ServedAddress, 'kind'>): boolean {
  return kind !== 'cluster' && kind !== 'address';
}

/** Chains through which connections from outside pass: they are masqueraded, unless their source is kept. */
function externalChains(
  port: ServicePort,
  served: readonly ServedAddress[],
  chosenBy: ReadonlyMap<ServedAddress, string>,
): Chains {
  const keyOf = (address: ServedAddress): string => `${address.keepsSource} ${chosenBy.get(address)}`;
  const variants = variantsOf(port, ['EXT'], served.filter(isExternal), keyOf);
  const chains = variants.map(({ name, first }): OwnChain => {
    const whose = first.keepsSource ? 'masquerade LOCAL traffic' : 'masquerade traffic';
    const from = first.keepsSource ? ' -m addrtype --src-type LOCAL' : '';
    const mark = `${comment(`${whose} for ${port.name} external destinations`)}${from} -j ${MARK_CHAIN}`;
    return { table: 'nat', name, rules: [mark, `-j ${chosenBy.get(first) ?? ''}`] };
  });
  return { chains, shared: [], leadTo: chainsByAddress(variants) };
}

/**
 * The connections of admitted clients are translated first, so packets that still have the load balancer IP as
 * destination in table filter are dropped.
 */
function firewallChains(
  port: ServicePort,
  served: readonly ServedAddress[],
  external: ReadonlyMap<ServedAddress, string>,
): Chains {
  const variants = restrictedVariants(port, served, external);
  const chains = variants.map(({ name, first, addresses }): OwnChain => {
    const text = comment(`${port.name} ${KIND_TEXTS.loadBalancer}`);
    const target = external.get(first) ?? '';
    const admitted = rangesOf(first).map((range) => `${fromNetwork(range)} ${text} -j ${target}`);
    const rest = comment(`other traffic to ${port.name} will be dropped by ${FIREWALL}`);
    return { table: 'nat', name, rules: [...admitted, ...fromItself(port, addresses, target), rest] };
  });
  const shared = variants.flatMap(({ name, addresses }) =>
    addresses.map(({ id }): SharedRule => {
      const rule = `${toService(id, `${port.name} traffic not accepted by ${name}`)} -j DROP`;
      return { table: 'filter', chain: FIREWALL, rule };
    }),
  );
  return { chains, shared, leadTo: chainsByAddress(variants) };
}

/** Divides the addresses with source ranges by these, and by where they lead. */
function restrictedVariants(
  port: ServicePort,
  addresses: readonly ServedAddress[],
  leadTo: ReadonlyMap<ServedAddress, string> = new Map(),
): readonly Variant[] {
  const restricted = addresses.filter(({ admitted }) => admitted !== undefined);
  const keyOf = (address: ServedAddress) => `${leadTo.get(address)} ${rangesOf(address).map(formatCidr).join(' ')}`;
  return variantsOf(port, ['FW'], restricted, keyOf);
}

function rangesOf({ admitted }: ServedAddress): readonly Cidr[] {
  return admitted?.ranges ?? [];
}

function fromItself(port: ServicePort, addresses: readonly ServedAddress[], target: string): readonly string[] {
  return addresses
    .filter(({ admitted }) => admitted?.itself === true)
    .map(({ id }) => `-s ${hostText(id.address)} ${comment(`${port.name}${ADMITS_ITSELF}`)} -j ${target}`);
}

/** Without endpoints nothing is translated: admitted clients are rejected, and others get no answer. */
function firewallsWithoutEndpoints(port: ServicePort, unserved: readonly ServedAddress[]): Rendered {
  const variants = restrictedVariants(port, unserved);
  return {
    chains: variants.map(({ name, first, addresses }): OwnChain => {
      const admitted = rangesOf(first).map((range) => `${fromNetwork(range)} -j RETURN`);
      return { table: 'filter', name, rules: [...admitted, ...fromItself(port, addresses, 'RETURN'), '-j DROP'] };
    }),
    shared: variants.flatMap(({ name, addresses }) =>
      addresses.map(({ id }): SharedRule => {
        const rule = `${toService(id, `${port.name} ${KIND_TEXTS.loadBalancer}`)} -j ${name}`;
        return { table: 'filter', chain: FIREWALL, rule };
      }),
    ),
  };
}

function dispatch(port: ServicePort, { id, kind }: ServedAddress, chain: string): SharedRule {
  const rule = `${toService(id, `${port.name} ${KIND_TEXTS[kind]}`)} -j ${chain}`;
  return { table: 'nat', chain: SERVICES, rule };
}

/** One rule for all addresses of the node if they lead to the same chain, as upstream; else one for each. */
function nodePortRules(
  port: ServicePort,
  served: readonly ServedAddress[],
  leadTo: (address: ServedAddress) => string,
  { nodePortAddresses, hasServiceRule }: RenderContext,
): readonly SharedRule[] {
  const ofPorts = Map.groupBy(
    served.filter(({ kind }) => kind === 'nodePort'),
    ({ id }) => id.port,
  );
  return Array.from(ofPorts).flatMap(([number, addresses]) => {
    const chains = new Set(addresses.map(leadTo));
    const here = new Set(addresses.map(({ id }) => id.address));
    const isEverywhere = nodePortAddresses.every(
      (address) => here.has(address) || hasServiceRule({ address, port: number, protocol: port.protocol }),
    );
    const rules =
      chains.size === 1 && isEverywhere
        ? [`${toPort(port.protocol, number, comment(port.name))} -j ${[...chains].join('')}`]
        : addresses.map((address) => `${toService(address.id, port.name)} -j ${leadTo(address)}`);
    return rules.map((rule): SharedRule => ({ table: 'nat', chain: NODE_PORTS, rule }));
  });
}

function rejection(port: ServicePort, { id, kind, keepsSource }: ServedAddress): SharedRule {
  const said = keepsSource && isExternal({ kind }) ? SOURCE_KEPT : '';
  const rule = `${toService(id, `${port.name} ${KIND_TEXTS[kind]}${said} has no endpoints`)} ${reject(port.family)}`;
  const chain = isExternal({ kind }) ? EXTERNAL_SERVICES : SERVICES;
  return { table: 'filter', chain, rule };
}
