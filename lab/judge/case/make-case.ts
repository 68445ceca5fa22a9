import {
  type Case,
  type CaseConfig,
  type ClusterObject,
  type ObjectName,
  type Objects,
  type ServiceObject,
  type Step,
  keyOf,
  nameOf,
  servicesOf,
} from './case.ts';
import { makeFlows } from './make-flows.ts';
import { makeConfig, makeInterfaces, makeNode } from './make-node.ts';
import { MOST_SERVICES, makeService, namespaceOf } from './make-service.ts';
import { makeSlice } from './make-slice.ts';
import { Random } from './random.ts';

/** Upstream plays each case so often at first: the order of Go's maps decides some results. */
export const FIRST_RUNS = 3;

const SUFFIXES = ['a', 'b', 'c'] as const;

/** Case number `id` of a seed: always the same. */
export function makeCase(mode: Case['mode'], seed: number, id: number): Case {
  const random = new Random(Math.imul(seed, 0x9e37_79b1) ^ id);
  const node = makeNode(random);
  const config = makeConfig(random);
  const interfaces = makeInterfaces(random);
  const objects: Objects = new Map();
  const steps = [firstStep(objects, config, random)];
  for (let changes = random.below(5); changes > 0; changes--) steps.push(laterStep(objects, config, random));
  return { id, mode, runs: FIRST_RUNS, config, node, interfaces, steps };
}

function firstStep(objects: Objects, config: CaseConfig, random: Random): Step {
  const apply: ClusterObject[] = [];
  for (let index = 0; index < 1 + random.below(4); index++) {
    const service = makeService(index, random);
    apply.push(service, ...makeSlices(service, random));
  }
  for (const object of apply) objects.set(keyOf(nameOf(object)), object);
  // What an earlier proxy left: flows to any address, answered by anyone.
  return { apply, remove: [], flows: makeFlows(objects, 'left', config, random) };
}

function laterStep(objects: Objects, config: CaseConfig, random: Random): Step {
  const flows = makeFlows(objects, 'served', config, random);
  const apply: ClusterObject[] = [];
  const remove: ObjectName[] = [];
  for (let changes = random.pick([1, 1, 1, 2, 3]); changes > 0; changes--) {
    const change = changeOf(objects, random);
    // One change for each object and step: what was made is in `objects` already.
    const touched = new Set([...apply.map(nameOf), ...remove].map(keyOf));
    if ([...change.apply.map(nameOf), ...change.remove].some((name) => touched.has(keyOf(name)))) continue;
    apply.push(...change.apply);
    remove.push(...change.remove);
    for (const object of change.apply) objects.set(keyOf(nameOf(object)), object);
    for (const name of change.remove) objects.delete(keyOf(name));
  }
  return { apply, remove, flows };
}

type Change = Pick<Step, 'apply' | 'remove'>;

function changeOf(objects: Objects, random: Random): Change {
  const services = servicesOf(objects);
  const present = [...objects.values()].map(nameOf);
  const service = services.length === 0 ? undefined : random.pick(services);
  switch (random.pick(['service', 'service', 'slices', 'slices', 'slices', 'remove', 'remove', 'add'] as const)) {
    case 'service':
      if (service !== undefined) return { apply: [makeService(indexOf(service), random)], remove: [] };
      break;
    case 'slices':
      if (service !== undefined) return { apply: makeSlices(service, random), remove: [] };
      break;
    case 'remove':
      if (present.length > 0) return { apply: [], remove: removalOf(random.pick(present), present, random) };
      break;
    case 'add':
      break;
  }
  const added = makeService(random.below(MOST_SERVICES), random);
  return { apply: [added, ...makeSlices(added, random)], remove: [] };
}

/** A Service goes with its slices, or before them. */
function removalOf(name: ObjectName, present: readonly ObjectName[], random: Random): ObjectName[] {
  if (name.kind === 'EndpointSlice' || random.percent(50)) return [name];
  return present.filter((each) => each.namespace === name.namespace && each.name.split('-')[0] === name.name);
}

function makeSlices(service: ServiceObject, random: Random): ClusterObject[] {
  const families = service.spec.ipFamilies ?? (['IPv4'] as const);
  return families.flatMap((family) =>
    random.some(SUFFIXES, 55).map((suffix) => makeSlice(service, family, suffix, random)),
  );
}

function indexOf(service: ServiceObject): number {
  const index = Number(service.metadata.name.slice(1));
  if (namespaceOf(index) !== service.metadata.namespace) throw new Error(`not made here: ${service.metadata.name}`);
  return index;
}
