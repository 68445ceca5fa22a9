import { expect, test } from '@jest/globals';
import type { Measurement } from '../../bench/measure.ts';
import { PLOTS, renderPlot } from '../../bench/plot.ts';
import { lastMeasured } from '../../bench/report-files.ts';

const MEASURED = lastMeasured();

function texts(svg: string): string[] {
  return Array.from(svg.matchAll(/<text [^>]*>([^<]+)<\/text>/g), ([, text]) => text ?? '');
}

async function rendered(name: string, measured: readonly Measurement[]): Promise<string> {
  const plot = PLOTS.find((candidate) => candidate.name === name);
  if (plot === undefined) throw new Error(`no plot ${name}`);
  return renderPlot(plot, measured);
}

function changed(name: string, values: Partial<Measurement>): Measurement[] {
  return MEASURED.map((measurement) => (measurement.name === name ? { ...measurement, ...values } : measurement));
}

test.each(PLOTS.map(({ name }) => name))('the plot %s is the same when it is rendered again', async (name) => {
  expect(await rendered(name, MEASURED)).toBe(await rendered(name, MEASURED));
});

test('each bar has the value of its measure or baseline', async () => {
  const name = 'watch event to kernel, one endpoint more at 10000x5';
  const svg = await rendered('change', changed(name, { value: 12.5, baseline: 25, against: 'a tool' }));
  expect(texts(svg)).toEqual(expect.arrayContaining(['kube-ipvs-proxy', '12.5 ms', 'a tool', '25 ms']));
});

test('ours has one bar beside its two baselines', async () => {
  const labels = texts(await rendered('first-sync', MEASURED));
  expect(labels.filter((label) => label === 'kube-ipvs-proxy')).toHaveLength(2);
  expect(labels).toEqual(expect.arrayContaining(['floor: raw replay of the netlink messages']));
});

test('the plot of memory has a point for each measured number of Services', async () => {
  const [any] = MEASURED;
  const more = { ...any, name: 'RSS of the daemon at 20000x10', value: 170.25, unit: 'MiB' } as Measurement;
  expect(texts(await rendered('memory', [...MEASURED, more]))).toContain('170.3 MiB');
});

test('a plot names the measure that was not measured', async () => {
  await expect(rendered('change', [])).rejects.toThrow('has no measure "watch event to kernel, one endpoint');
});
