import fc from 'fast-check';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { ACT_NAMES } from './acts.ts';
import type { Trouble } from './interposer.ts';
import { anyChange } from './objects.ts';

/** The kernel call before which it happens; 0: before the sync starts. */
interface Moment {
  readonly call: number;
}

export interface HostileAct extends Moment {
  readonly act: string;
  readonly pick: number;
}

export interface Change extends Moment {
  readonly event: SourceEvent;
}

/** One sync, and the changes and faults around it. */
export interface Step {
  readonly sync: 'change' | 'full check' | 'restart';
  readonly changes: readonly Change[];
  readonly acts: readonly HostileAct[];
  readonly trouble: Trouble | undefined;
  /** Host numbers of the endpoints that are silent from the sync on; undefined: the same as before. */
  readonly silent: readonly number[] | undefined;
  /** Seconds by which the wall clock changes before the sync. */
  readonly clockStep: number;
}

export interface FaultHistory {
  /** Index of the daemon's configuration, which may differ from that of the previous history. */
  readonly config: number;
  readonly steps: readonly Step[];
}

/** Usually before the sync starts. */
const call = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 25 }) },
);

const trouble: fc.Arbitrary<Trouble> = fc.oneof(
  fc.record({
    kind: fc.constant('kill' as const),
    call: fc.integer({ min: 1, max: 20 }),
    operations: fc.integer({ min: 0, max: 30 }),
  }),
  fc.record({ kind: fc.constant('fail' as const), call: fc.integer({ min: 1, max: 20 }) }),
  fc.record({
    kind: fc.constant('refuse' as const),
    call: fc.integer({ min: 1, max: 20 }),
    every: fc.integer({ min: 1, max: 5 }),
  }),
);

function anyStep(most: number): fc.Arbitrary<Step> {
  return fc.record({
    sync: fc.oneof(
      { weight: 4, arbitrary: fc.constant('change' as const) },
      { weight: 2, arbitrary: fc.constant('full check' as const) },
      { weight: 1, arbitrary: fc.constant('restart' as const) },
    ),
    changes: fc.array(fc.record({ event: anyChange, call }), { maxLength: most }),
    acts: fc.array(fc.record({ act: fc.constantFrom(...ACT_NAMES), pick: fc.nat(999), call }), { maxLength: 3 }),
    silent: fc.option(fc.subarray([1, 2, 3, 4, 5, 6]), { freq: 2, nil: undefined }),
    clockStep: fc.constantFrom(0, 0, -90, -18_000, 7200),
    trouble: fc.option(trouble, { freq: 2, nil: undefined }),
  });
}

export function anyHistory(configs: number): fc.Arbitrary<FaultHistory> {
  return fc
    .record({
      // Usually the same, because another configuration rewrites all rules.
      config: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(configs - 1) }),
      first: anyStep(20),
      rest: fc.array(anyStep(4), { maxLength: 3 }),
    })
    .map(({ config, first, rest }) => ({ config, steps: [first, ...rest] }));
}

/** Returns the history, one line per change or act. */
export function historyLines({ config, steps }: FaultHistory): string[] {
  const at = ({ call: number }: Moment): string => (number === 0 ? '' : ` (before call ${number} of the kernel)`);
  return [
    `configuration ${config}`,
    ...steps.flatMap(({ sync, changes, acts, trouble: said, silent, clockStep }, index) => [
      `${index + 1}. ${sync}`,
      ...changes.map((change) => `   ${changeText(change.event)}${at(change)}`),
      ...acts.map((act) => `   ${act.act} #${act.pick}${at(act)}`),
      ...(silent === undefined ? [] : [`   silent are ${silent.length === 0 ? 'none' : `hosts ${silent.join(', ')}`}`]),
      ...(clockStep === 0 ? [] : [`   the wall clock changes by ${clockStep} s`]),
      ...(said === undefined ? [] : [`   ${JSON.stringify(said)}`]),
    ]),
  ];
}

function changeText({ kind, event }: SourceEvent): string {
  return `${kind} ${event.type} ${JSON.stringify('object' in event ? event.object : '')}`;
}
