import { valueAtMost } from '../measure.ts';
import { ONE_ENDPOINT, type PipelineRun, coldFirstSync, firstSync, keptBytes } from '../pipeline.ts';
import type { Row } from '../row.ts';

const MICROS = 20;
const BYTES = 3_000;
const HELD_MS = 50;

/** All of our own work, no kernel: from listed objects to applied operations. */
export const pipeline: Row = {
  name: 'pipeline',
  onHost: true,
  async run(out, size) {
    const shape = { ...ONE_ENDPOINT, services: size.services(ONE_ENDPOINT.services) };
    const cold: PipelineRun[] = [];
    for (let run = 0; run < size.runs; run++) cold.push(await coldFirstSync(shape));
    for (let run = 0; run < size.slowRuns; run++) await firstSync(shape);
    const warm: PipelineRun[] = [];
    for (let run = 0; run < size.runs; run++) warm.push(await firstSync(shape));
    const add = (name: string, values: readonly number[], limit?: number): void => {
      const target = limit === undefined ? {} : { target: valueAtMost(limit, `at most ${limit} µs a service`) };
      out.add({ name: `user-space pipeline, a service with one endpoint: ${name}`, unit: 'µs', values, ...target });
    };
    const times = (runs: readonly PipelineRun[]): number[] => runs.map(({ micros }) => micros);
    const work = (runs: readonly PipelineRun[]): number[] => runs.map(({ threadMicros }) => threadMicros);
    add('once compiled', times(warm), MICROS);
    add('once compiled, CPU time of the main thread', work(warm));
    add(
      'of that inside the kernel in memory',
      warm.map(({ fakeMicros }) => fakeMicros),
    );
    add('first of a process', times(cold));
    add('first of a process, CPU time of the main thread', work(cold));
    out.add({
      name: 'user-space pipeline: work without a turn of the event loop, worst of each run',
      unit: 'ms',
      values: [...cold, ...warm].map(({ heldMs }) => heldMs),
      target: valueAtMost(HELD_MS, `at most ${HELD_MS} ms`),
    });
    const { model, plan } = await keptBytes(shape);
    out.add({
      name: 'user-space pipeline: kept for a service with one endpoint, model and plan',
      unit: 'bytes',
      values: [model + plan],
      target: valueAtMost(BYTES, `at most ${BYTES} bytes`),
    });
  },
};
