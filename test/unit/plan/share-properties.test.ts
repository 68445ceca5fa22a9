import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { Cluster } from '../../../src/model/cluster.ts';
import { IP_FAMILIES } from '../../../src/base/ip.ts';
import type { NamespacedName } from '../../../src/base/service/names.ts';
import { NodePlan, setKey } from '../../../src/plan/node/node-plan.ts';
import { planService } from '../../../src/plan/service/plan-service.ts';
import type { PlannedVirtualServer, ServicePlan } from '../../../src/plan/service-plan.ts';
import { SET_ROLES } from '../../../src/state/set-roles.ts';
import { sharePlan } from '../../../src/plan/share-plan.ts';
import { ipSetEntryKey } from '../../../src/state/ip-set.ts';
import { virtualServerKey } from '../../../src/state/virtual-server.ts';
import { anyEvent } from './arbitrary.ts';
import { HERE, config, nodeView } from './build.ts';

const SEED = Number(process.env['SEED'] ?? 20_240_101);
const RUNS: fc.Parameters<unknown> = { seed: SEED, numRuns: 200 };

/** Events, each with whether what has changed is planned then. */
const history = fc.array(fc.tuple(anyEvent, fc.boolean()), { minLength: 8, maxLength: 60, size: 'max' });

/** Plans each service that has changed, and hands it over with the plan before it. */
function follow(
  steps: readonly (readonly [SourceEvent, boolean])[],
  replan: (name: NamespacedName, fresh: ServicePlan | undefined) => void,
): void {
  const cluster = new Cluster(HERE);
  for (const [at, [event, take]] of steps.entries()) {
    cluster.apply(event);
    if (!take && at + 1 < steps.length) continue;
    for (const name of cluster.takeChanges().services) {
      const model = cluster.service(name);
      replan(name, model === undefined ? undefined : planService(model, nodeView({ zone: 'zone-a' }), config()));
    }
  }
}

/** Everything that a NodePlan answers. */
function contents(plan: NodePlan): unknown {
  const sets = IP_FAMILIES.flatMap((family) => SET_ROLES.map((role) => ({ role, family })));
  return {
    virtualServers: new Map(
      Array.from(plan.virtualServers(), (planned) => {
        const key = virtualServerKey(planned.virtualServer);
        return [key, { planned, answering: plan.answering()(key) }];
      }),
    ),
    addresses: new Set(plan.addresses()),
    entries: sets.map(({ role, family }) => [
      setKey(role, family),
      new Map(Array.from(plan.entries(role, family), ([key, { entry }]) => [key, entry])),
    ]),
    conflicts: new Set(
      Array.from(plan.services(), ({ service }) => plan.conflictsOf(service))
        .flat()
        .map((conflict) => JSON.stringify(conflict)),
    ),
    healthChecks: new Map(plan.healthChecks),
  };
}

describe('for any history of objects', () => {
  test('a plan that shares parts with the previous one equals the plan made from scratch', () => {
    let shared = 0;
    fc.assert(
      fc.property(history, (steps) => {
        const plans = new Map<NamespacedName, ServicePlan>();
        follow(steps, (name, fresh) => {
          const before = plans.get(name);
          plans.delete(name);
          if (fresh === undefined) return;
          const plan = sharePlan(fresh, before);
          expect(plan).toEqual(fresh);
          plans.set(name, plan);
          if (before !== undefined && before.entries.length > 0 && plan.entries === before.entries) shared += 1;
        });
      }),
      RUNS,
    );
    expect(shared).toBeGreaterThan(20);
  });

  test('an equal plan shares all parts with the previous one', () => {
    fc.assert(
      fc.property(history, (steps) => {
        const unshared: unknown[] = [];
        follow(steps, (_name, fresh) => {
          if (fresh === undefined) return;
          const plan = sharePlan(structuredClone(fresh), fresh);
          for (const part of ['virtualServers', 'addresses', 'entries', 'udp'] as const) {
            if (fresh[part].length > 0 && plan[part] !== fresh[part]) unshared.push(plan[part]);
          }
        });
        expect(unshared).toEqual([]);
      }),
      RUNS,
    );
  });

  test('a node plan that followed all changes equals one made from the last plans', () => {
    fc.assert(
      fc.property(history, (steps) => {
        const followed = new NodePlan();
        const last = new Map<NamespacedName, ServicePlan>();
        // What the kernel would hold, if it did what the changes say.
        const kernel = {
          virtualServers: new Map<unknown, PlannedVirtualServer>(),
          addresses: new Set(),
          entries: new Map(),
        };
        follow(steps, (name, fresh) => {
          last.delete(name);
          if (fresh !== undefined) last.set(name, fresh);
          followed.replace(name, fresh && sharePlan(fresh, followed.service(name)));
          const { virtualServers, addresses, entries } = followed.takeChanges();
          for (const { id, wanted } of virtualServers) put(kernel.virtualServers, virtualServerKey(id), wanted);
          for (const { address, wanted } of addresses) kernel.addresses[wanted ? 'add' : 'delete'](address);
          for (const { role, family, entry, wanted } of entries) {
            const key = `${setKey(role, family)} ${typeof ipSetEntryKey(entry)} ${ipSetEntryKey(entry)}`;
            put(kernel.entries, key, wanted ? entry : undefined);
          }
        });
        const anew = new NodePlan();
        for (const [name, plan] of last) anew.replace(name, plan);
        expect(contents(followed)).toEqual(contents(anew));
        // The other parts of a plan are not written to the kernel.
        const told = ({ virtualServer, realServers }: PlannedVirtualServer): unknown => ({
          virtualServer,
          realServers,
        });
        expect(new Set(Array.from(kernel.virtualServers.values(), told))).toEqual(
          new Set(Array.from(anew.virtualServers(), told)),
        );
        expect(kernel.addresses).toEqual(new Set(anew.addresses()));
        const all = IP_FAMILIES.flatMap((family) => SET_ROLES.map((role) => anew.entries(role, family).size));
        expect(kernel.entries.size).toBe(all.reduce((sum, size) => sum + size, 0));
      }),
      RUNS,
    );
  });
});

function put<K, V>(map: Map<K, V>, key: K, value: V | undefined): void {
  if (value === undefined) map.delete(key);
  else map.set(key, value);
}
