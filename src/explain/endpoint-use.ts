import { compareText } from '../base/text/compare-text.ts';
import { type IpFamily, IP_FAMILIES, familyLabel, familyOf, formatHostPort, formatIp } from '../base/ip.ts';
import { mergeSlices } from '../model/merge-slices.ts';
import type { EndpointTraits, ServiceDefinition, ServicePortDefinition } from '../model/service-model.ts';
import type { SliceModel, UnusableEndpoint } from '../model/slice-model.ts';
import { type FamilyView, type PortView, familyView } from '../plan/family-view.ts';
import type { NodeView, PlanConfig } from '../plan/plan-config.ts';
import { type RealServerKey, realServerKey } from '../state/real-server.ts';
import { type Choice, type Note, type EndpointReach, choiceOf, choiceNotes } from './choice.ts';

export interface EndpointUse extends EndpointReach {
  readonly slice: string;
  /** Address and port; only the address if it has no port here. */
  readonly at: string;
  /** Absent if the endpoint cannot be a real server. */
  readonly key?: RealServerKey;
  /** Whether the reason lies in the Service or its slices, and is not that the endpoint is not ready (yet). */
  readonly isMistake: boolean;
}

export interface PortUse {
  readonly port: ServicePortDefinition;
  readonly endpoints: readonly EndpointUse[];
  readonly notes: readonly Note[];
}

/** The beginning of the reason why an endpoint has no port here. */
export const NO_PORT = 'its slice has no';

/** Says of every endpoint of every slice whether this node uses it for each port, and if not, why. Yields often. */
export function* endpointUse(
  definition: ServiceDefinition,
  slices: readonly SliceModel[],
  node: NodeView,
  config: PlanConfig,
): Generator<void, readonly PortUse[]> {
  const inOrder = slices.toSorted((a, b) => compareText(a.name, b.name));
  const service = mergeSlices(definition, inOrder);
  const views = new Map<IpFamily, FamilyView>();
  for (const family of IP_FAMILIES) {
    const view = config.families.includes(family) ? familyView(service, family, node, config) : undefined;
    if (view !== undefined) views.set(family, view);
  }
  const uses: PortUse[] = [];
  for (const port of definition.ports) {
    uses.push(yield* new PortExplainer(port, inOrder, views, node, config).explain());
  }
  return uses;
}

/** Explains the endpoints of one port. */
class PortExplainer {
  readonly #port: ServicePortDefinition;
  readonly #slices: readonly SliceModel[];
  readonly #choices = new Map<IpFamily, Choice>();
  readonly #config: PlanConfig;
  /** The slice from which each endpoint is taken. */
  readonly #taken = new Map<RealServerKey, string>();

  constructor(
    port: ServicePortDefinition,
    slices: readonly SliceModel[],
    views: ReadonlyMap<IpFamily, FamilyView>,
    node: NodeView,
    config: PlanConfig,
  ) {
    this.#port = port;
    this.#slices = slices;
    this.#config = config;
    for (const [family, view] of views) {
      const portView = view.ports.find(({ protocol, port: number }) => isPort(port, protocol, number));
      if (portView === undefined) continue;
      this.#choices.set(family, choiceOf(view, portView, { nodeName: config.nodeName, zone: node.zone }));
      this.#noteTaken(portView);
    }
  }

  *explain(): Generator<void, PortUse> {
    const endpoints: EndpointUse[] = [];
    for (const slice of this.#slices) {
      for (const use of this.#ofSlice(slice)) endpoints.push(use);
      yield;
    }
    const notes = [
      ...(this.#slices.some((slice) => this.#targets(slice).length > 0)
        ? []
        : this.#slices.map((slice): Note => ({ text: this.#mismatch(slice), onAllNodes: true }))),
      ...Array.from(this.#choices.values()).flatMap(choiceNotes),
    ];
    const byText = new Map(notes.map((note) => [note.text, note]));
    return { port: this.#port, endpoints, notes: [...byText.values()] };
  }

  #targets({ ports }: SliceModel): SliceModel['ports'] {
    return ports.filter(({ name, protocol }) => name === this.#port.name && protocol === this.#port.protocol);
  }

  #noteTaken({ endpoints }: PortView): void {
    const traitsOf = new Map(endpoints.map((endpoint) => [realServerKey(endpoint), endpoint.traits]));
    for (const slice of this.#slices) {
      for (const { port } of this.#targets(slice)) {
        for (const { address, traits } of slice.endpoints) {
          const key = realServerKey({ address, port });
          if (traitsOf.get(key) === traits && !this.#taken.has(key)) this.#taken.set(key, slice.name);
        }
      }
    }
  }

  #ofSlice(slice: SliceModel): EndpointUse[] {
    const { name, endpoints, unusable } = slice;
    const leftOut = (at: string, why: string, isMistake: boolean): EndpointUse => ({
      slice: name,
      at,
      use: 'none',
      why,
      isMistake,
    });
    const targets = this.#targets(slice);
    if (targets.length === 0) {
      const why = `${NO_PORT} ${portText(this.#port)}`;
      const all = [...endpoints.map(({ address }) => formatIp(address)), ...unusable.map(({ address }) => address)];
      return all.map((at) => leftOut(at, why, true));
    }
    const used = targets.flatMap(({ port }) =>
      endpoints.map(({ address, traits }): EndpointUse => {
        const key = realServerKey({ address, port });
        return {
          slice: name,
          at: formatHostPort(address, port),
          key,
          ...this.#decide(slice, familyOf(address), key, traits),
        };
      }),
    );
    return [...used, ...unusable.map(({ address, why }) => leftOut(address, why, isInvalid(why)))];
  }

  #decide(
    { name }: SliceModel,
    family: IpFamily,
    key: RealServerKey,
    traits: EndpointTraits,
  ): Pick<EndpointUse, 'use' | 'why' | 'isMistake'> {
    const choice = this.#choices.get(family);
    if (choice === undefined) return { use: 'none', ...this.#withoutFamily(family) };
    const taken = this.#taken.get(key);
    const isMistake = false;
    if (taken === undefined)
      return { use: 'none', why: 'terminating, and a Pod that is not ready has its address now', isMistake };
    if (taken !== name) return { use: 'none', why: `slice ${taken} has it already`, isMistake };
    return { ...choice.decide(key, traits), isMistake };
  }

  #withoutFamily(family: IpFamily): Pick<EndpointUse, 'why' | 'isMistake'> {
    const label = familyLabel(family);
    return this.#config.families.includes(family)
      ? { why: `the Service has no ${label} cluster IP`, isMistake: true }
      : { why: `this node does not serve ${label}`, isMistake: false };
  }

  #mismatch({ name, ports }: SliceModel): string {
    const wanted = `no port of slice ${name} matches the ${portText(this.#port)} of the Service`;
    if (ports.length === 0) return `${wanted}: it has none`;
    const has = ports.map(({ name: found, protocol }) =>
      protocol === this.#port.protocol ? JSON.stringify(found) : `${JSON.stringify(found)} ${protocol}`,
    );
    return `${wanted}: it has ${has.join(', ')}`;
  }
}

function isInvalid(why: UnusableEndpoint['why']): boolean {
  return why === 'its address is not valid' || why === 'not of the address type of its slice';
}

function isPort(port: ServicePortDefinition, protocol: string, number: number): boolean {
  return port.protocol === protocol && port.port === number;
}

function portText({ name }: ServicePortDefinition): string {
  return name === '' ? 'unnamed port' : `port ${JSON.stringify(name)}`;
}
