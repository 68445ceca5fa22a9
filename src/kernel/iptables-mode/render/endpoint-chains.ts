import { formatHostPort } from '../../../base/ip.ts';
import type { Endpoint } from '../../../state/real-server.ts';
import type { RuleSettings } from '../../../state/rules/rule-settings.ts';
import { notFromPods } from '../../../state/rules/masquerade-rules.ts';
import { ruleText } from '../../iptables/iptables-rule.ts';
import { endpointChain } from './chain-names.ts';
import { comment, hostText, isRemembered, oneIn, rememberSource, toService } from './rule-text.ts';
import { type OwnChain, KIND_TEXTS, MARK_CHAIN, type ServedAddress, type ServicePort } from './service-port.ts';
import { type Variant, chainsByAddress, variantsOf } from './variants.ts';

const MARK = `-j ${MARK_CHAIN}`;

/** The chains that choose among endpoints, and those of the endpoints. */
export interface EndpointChains {
  readonly chains: readonly OwnChain[];
  /** The chain that chooses among the endpoints of an address. Addresses without endpoints are absent. */
  readonly chosenBy: ReadonlyMap<ServedAddress, string>;
}

export function endpointChains(port: ServicePort, settings: RuleSettings): EndpointChains {
  const lists = new Map(port.addresses.map(({ endpoints }, at) => [endpoints, at]));
  const served = port.addresses.filter(({ endpoints }) => endpoints.length > 0);
  const keyOf = ({ affinity, endpoints }: ServedAddress): string => `${affinity} ${lists.get(endpoints)}`;
  const choices = variantsOf(port, ['SVC', 'SVL'], served, keyOf);
  const endpoints = namedEndpoints(port, choices);
  return {
    chains: [
      ...choices.map((choice) => choosingChain(port, choice, endpoints, settings)),
      ...chainsOfEndpoints(port, choices, endpoints),
    ],
    chosenBy: chainsByAddress(choices),
  };
}

interface NamedEndpoint {
  readonly endpoint: Endpoint;
  readonly chain: string;
}

/** Returns all endpoints, by their text, with their chains: naming one takes a hash, so it is done once. */
function namedEndpoints(port: ServicePort, choices: readonly Variant[]): ReadonlyMap<string, NamedEndpoint> {
  const named = new Map<string, NamedEndpoint>();
  for (const { first } of choices) {
    for (const endpoint of first.endpoints) {
      const text = endpointText(endpoint);
      if (!named.has(text)) named.set(text, { endpoint, chain: endpointChain(port, endpoint) });
    }
  }
  return named;
}

/** A client that was remembered for an endpoint goes to it again; others, to a random one. */
function choosingChain(
  port: ServicePort,
  { name, first, addresses }: Variant,
  named: ReadonlyMap<string, NamedEndpoint>,
  settings: RuleSettings,
): OwnChain {
  const { affinity, endpoints } = first;
  const ways = endpoints.map(endpointText).map((text) => ({
    chain: named.get(text)?.chain ?? '',
    text: comment(`${port.name} -> ${text}`),
  }));
  const remembered = ways.map(({ chain, text }) => `${text} ${isRemembered(chain, affinity, port.family)} -j ${chain}`);
  const chosen = ways.map(({ chain, text }, index) => {
    const left = ways.length - index;
    return left === 1 ? `${text} -j ${chain}` : `${text} ${oneIn(left)} -j ${chain}`;
  });
  return {
    table: 'nat',
    name,
    rules: [
      ...addresses.flatMap((address) => masquerade(port, address, settings)),
      ...(affinity > 0 ? remembered : []),
      ...chosen,
    ],
  };
}

/** Marks connections to a cluster IP whose replies would otherwise bypass this node. */
function masquerade(port: ServicePort, { id, kind }: ServedAddress, settings: RuleSettings): readonly string[] {
  if (kind !== 'cluster') return [];
  const { masqueradeAll, localDetector } = settings;
  const to = toService(id, `${port.name} ${KIND_TEXTS.cluster}`);
  if (masqueradeAll) return [`${to} ${MARK}`];
  // Only while kube-ipvs0 still has the address, this node's own connections to it have it as source.
  if (localDetector === undefined) return [`-s ${hostText(id.address)} ${to} ${MARK}`];
  const outside = ruleText(notFromPods(localDetector));
  if (localDetector.kind === 'cidr') return [`${outside} ${to} ${MARK}`];
  // iptables-save prints the interface after the destination.
  return [`${to.replace(' -p ', () => ` ${outside} -p `)} ${MARK}`];
}

function chainsOfEndpoints(
  port: ServicePort,
  choices: readonly Variant[],
  named: ReadonlyMap<string, NamedEndpoint>,
): readonly OwnChain[] {
  const sticky = choices.some(({ first }) => first.affinity > 0);
  const protocol = port.protocol.toLowerCase();
  return Array.from(named, ([text, { endpoint, chain: name }]): OwnChain => {
    const remember = sticky ? ` ${rememberSource(name, port.family)}` : '';
    return {
      table: 'nat',
      name,
      rules: [
        // An endpoint that is its own client would otherwise reply to itself.
        `-s ${hostText(endpoint.address)} ${comment(port.name)} ${MARK}`,
        `-p ${protocol} ${comment(port.name)}${remember} -m ${protocol} -j DNAT --to-destination ${text}`,
      ],
    };
  });
}

function endpointText({ address, port }: Endpoint): string {
  return formatHostPort(address, port);
}
