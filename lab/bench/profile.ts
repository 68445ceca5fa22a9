import { Session } from 'node:inspector/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Self time of each function, in microseconds. */
export type SelfTimes = Map<string, number>;

/** Not ours: waiting for something, and the profiler itself. */
const NOT_WORK = new Set(['(idle)', '(program)', '(root)']);

const ROOT = path.dirname(path.dirname(import.meta.dirname));

const SAMPLE_EVERY_MICROS = 200;

function nameOf(functionName: string, url: string): string {
  const file = url.startsWith('file:') ? path.relative(ROOT, fileURLToPath(url)) : url;
  const name = `\`${functionName === '' ? '(no name)' : functionName}\``;
  return file === '' ? name : `${name} ${file}`;
}

/** Profiles the work, and adds the self time of its functions to `times`. */
export async function profiled<T>(times: SelfTimes, work: () => Promise<T>): Promise<T> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: SAMPLE_EVERY_MICROS });
  await session.post('Profiler.start');
  const result = await work();
  const { profile } = await session.post('Profiler.stop');
  session.disconnect();
  const frames = new Map(profile.nodes.map(({ id, callFrame }) => [id, callFrame]));
  profile.samples?.forEach((id, at) => {
    const frame = frames.get(id);
    if (frame === undefined || NOT_WORK.has(frame.functionName)) return;
    const name = nameOf(frame.functionName, frame.url);
    times.set(name, (times.get(name) ?? 0) + (profile.timeDeltas?.[at + 1] ?? 0));
  });
  return result;
}

/** The functions with the most self time, as a Markdown table. */
export function profileTable(times: SelfTimes, rows = 15): string {
  const all = [...times.values()].reduce((sum, time) => sum + time, 0);
  const top = [...times].sort(([, a], [, b]) => b - a).slice(0, rows);
  const lines = top.map(([name, time]) => `| ${((100 * time) / all).toFixed(1)} % | ${name} |`);
  return `${['| self time | function |', '| ---: | --- |', ...lines].join('\n')}\n`;
}
