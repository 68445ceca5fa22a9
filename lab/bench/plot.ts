import { View, parse } from 'vega';
import { type TopLevelSpec, compile } from 'vega-lite';
import { type Measurement, besideKubeProxy, measureNamed } from './measure.ts';
import { quantity } from './report.ts';

/** A picture of some measures: a file of lab/results/plots/. */
export interface Plot {
  readonly name: string;
  readonly spec: (measured: readonly Measurement[]) => TopLevelSpec;
}

const OURS = 'kube-ipvs-proxy';

/** Readable on a white and on a dark page: the background is transparent. */
const TEXT_COLOR = '#6e7781';
const OUR_COLOR = '#2f81f7';
const BASELINE_COLOR = '#a3764a';

const CONFIG: NonNullable<TopLevelSpec['config']> = {
  background: 'transparent',
  font: 'sans-serif',
  view: { stroke: null },
  axis: {
    labelColor: TEXT_COLOR,
    titleColor: TEXT_COLOR,
    gridColor: TEXT_COLOR,
    gridOpacity: 0.25,
    domainColor: TEXT_COLOR,
    tickColor: TEXT_COLOR,
    labelLimit: 0,
    titleFontWeight: 'normal',
  },
  title: { color: TEXT_COLOR, anchor: 'start', frame: 'group', fontSize: 12 },
  legend: { labelColor: TEXT_COLOR, labelLimit: 0, orient: 'bottom', columns: 1 },
};

const WIDTH = 460;

/** Measures of the same thing: a bar for ours, and a bar for each baseline. */
interface BarGroup {
  readonly title: string;
  readonly measures: readonly string[];
  /** The label of our bar, if the baseline is kube-ipvs-proxy in another case. */
  readonly ourCase?: string;
}

interface Bar {
  readonly what: string;
  readonly value: number;
  readonly label: string;
  readonly ours: boolean;
}

function barsOf(measured: readonly Measurement[], group: BarGroup): Bar[] {
  const bars = group.measures.flatMap((name): Bar[] => {
    const { value, unit, baseline, against } = measureNamed(measured, name);
    const ours = { what: group.ourCase ?? OURS, value, label: quantity(value, unit), ours: true };
    if (baseline === null || against === null) return [ours];
    return [
      ours,
      { what: against, value: baseline, label: quantity(baseline, unit), ours: group.ourCase !== undefined },
    ];
  });
  // Measures with two baselines repeat ours.
  return bars.filter((bar, index) => bars.findIndex(({ what }) => what === bar.what) === index);
}

function barPlot(name: string, groups: readonly BarGroup[]): Plot {
  return {
    name,
    spec: (measured) => ({
      config: CONFIG,
      vconcat: groups.map((group) => ({
        title: group.title,
        width: WIDTH,
        height: { step: 22 },
        data: { values: barsOf(measured, group) },
        encoding: {
          y: { field: 'what', type: 'nominal', sort: null, axis: { title: null, ticks: false } },
          x: { field: 'value', type: 'quantitative', axis: null },
        },
        layer: [
          {
            mark: { type: 'bar', height: 14 },
            encoding: {
              color: {
                field: 'ours',
                type: 'nominal',
                scale: { domain: [true, false], range: [OUR_COLOR, BASELINE_COLOR] },
                legend: null,
              },
            },
          },
          {
            mark: { type: 'text', align: 'left', dx: 4, color: TEXT_COLOR },
            encoding: { text: { field: 'label', type: 'nominal' } },
          },
        ],
      })),
    }),
  };
}

/** The measures of a row beside kube-proxy. */
function besideKubeProxyPlot(name: string, mode: string): Plot {
  const measures = [
    ['Start to the end of the first sync', 'start to the end of the first sync'],
    ['One endpoint more, from watch event to kernel', 'one endpoint more'],
    ['Resident memory', 'RSS'],
  ] as const;
  const spec = (measured: readonly Measurement[]): TopLevelSpec => {
    const groups = measures.map(([title, measure]) => {
      const found = besideKubeProxy(measured, measure, mode);
      const [, services, endpoints] = / at (\d+)x(\d+), /.exec(found.name) ?? [];
      const size = `${Number(services).toLocaleString('en')} Services with ${endpoints} endpoints each`;
      return { title: `${title}: ${size}`, measures: [found.name] };
    });
    return barPlot(name, groups).spec(measured);
  };
  return { name, spec };
}

/** The size of a cluster at the end of a measure's name, as `sizeName` writes it. */
const SIZED = /^RSS of the daemon at (\d+)x(\d+)$/;

const MEMORY: Plot = {
  name: 'memory',
  spec: (measured) => {
    const idle = measureNamed(measured, 'RSS of the daemon idle');
    const sized = measured.flatMap(({ name, value, unit }) => {
      const [, services, endpoints] = SIZED.exec(name) ?? [];
      if (services === undefined || endpoints === undefined) return [];
      const series = `${OURS}, ${endpoints} endpoint${endpoints === '1' ? '' : 's'} for each Service`;
      return [{ services: Number(services), value, label: quantity(value, unit), series }];
    });
    if (sized.length === 0)
      throw new Error('lab/results/performance.json has no measure of memory by the number of Services');
    const points = [
      { services: 1, value: idle.value, label: quantity(idle.value, idle.unit), series: `${OURS}, one Service` },
      ...sized.toSorted((a, b) => a.services - b.services),
    ];
    const series = [...new Set(points.map((point) => point.series))];
    const baseline = { value: idle.baseline, label: `${idle.against}: ${quantity(idle.baseline ?? 0, idle.unit)}` };
    const y = { field: 'value', type: 'quantitative', title: 'resident memory, MiB', scale: { nice: 4 } } as const;
    return {
      config: CONFIG,
      width: WIDTH,
      height: 220,
      layer: [
        {
          data: { values: points },
          mark: { type: 'point', filled: true, size: 80, opacity: 1 },
          encoding: {
            x: { field: 'services', type: 'quantitative', title: 'Services', scale: { domainMax: 60_000 } },
            y,
            color: {
              field: 'series',
              type: 'nominal',
              scale: { domain: series, range: ['#2da44e', OUR_COLOR, '#a371f7'] },
              legend: { title: null },
            },
          },
        },
        {
          data: { values: points },
          mark: { type: 'text', align: 'left', baseline: 'middle', dx: 8, color: TEXT_COLOR },
          encoding: { x: { field: 'services', type: 'quantitative' }, y, text: { field: 'label', type: 'nominal' } },
        },
        {
          data: { values: [baseline] },
          mark: { type: 'rule', color: BASELINE_COLOR, strokeDash: [4, 3] },
          encoding: { y },
        },
        {
          data: { values: [baseline] },
          mark: { type: 'text', align: 'right', baseline: 'top', dy: 5, color: TEXT_COLOR },
          encoding: { x: { value: WIDTH }, y, text: { field: 'label', type: 'nominal' } },
        },
      ],
    };
  },
};

export const PLOTS: readonly Plot[] = [
  barPlot('first-sync', [
    {
      title: 'First sync of 10,000 Services with 5 endpoints each',
      measures: ['first sync 10000x5: whole, over the floor', 'first sync 10000x5: whole, over the tools'],
    },
    {
      title: 'First sync of 1,000 Services with 5 endpoints each',
      measures: ['first sync 1000x5: whole, over object by object at the same size'],
    },
  ]),
  barPlot('change', [
    {
      title: 'From the watch event of one more endpoint to the kernel, among 10,000 Services',
      measures: ['watch event to kernel, one endpoint more at 10000x5'],
    },
    {
      title: 'One endpoint change, without address binding',
      ourCase: 'among 50,000 services',
      measures: ['one endpoint change among 50000 services, on the real kernel, addresses not bound'],
    },
  ]),
  MEMORY,
  besideKubeProxyPlot('kube-proxy', 'ipvs'),
  besideKubeProxyPlot('kube-proxy-nftables', 'nftables'),
  besideKubeProxyPlot('kube-proxy-iptables', 'iptables'),
];

/** The plot as SVG; the same measures give the same text. */
export async function renderPlot(plot: Plot, measured: readonly Measurement[]): Promise<string> {
  const view = new View(parse(compile(plot.spec(measured)).spec), { renderer: 'none' });
  try {
    return `${await view.toSVG()}\n`;
  } finally {
    view.finalize();
  }
}
