import { table, wrap } from '../../scripts/markdown.ts';
import { type Measurement, besideKubeProxy } from './measure.ts';
import { quantity } from './report.ts';

/** What a user decides by, and the beginning of its name in the rows beside kube-proxy. */
const MEASURES = [
  ['start until everything is in the kernel', 'start to the end of the first sync'],
  ['CPU time until then', 'processor time to the end of the first sync'],
  ['one endpoint more, from the watch event to the kernel', 'one endpoint more'],
  ['CPU time of an idle minute', 'processor time in an idle minute'],
  ['resident memory', 'RSS'],
] as const;
const MODES = ['ipvs', 'nftables'] as const;
const COLUMNS = [
  'mode',
  'Services x endpoints',
  'measure',
  'kube-ipvs-proxy',
  'kube-proxy 1.37.2',
  'ratio',
  'n',
  'kernel',
];

const VERSION = '1.37.2';

const INTRODUCTION = `What to decide by, beside kube-proxy ${VERSION} in the same mode: both programs in turn as processes, each time
  on a fresh node with an API server of its own. Medians; \`n\` is the number of runs, or of changes. A ratio below 1 is better
  than kube-proxy.`;

const READING = `Compare ratios, not times: the machine has two CPUs and ran other work meanwhile (load 15 to 20), from which times
  suffer more than CPU time, and a program with one thread more than one with many. \`native\` is the machine's own Linux 6.18.
  \`uml\` is User-Mode Linux with one CPU, where a system call or the start of a process costs about ten times as much as on
  hardware, and kube-proxy starts a process for each entry of an ipset in ipvs mode. Of our resident memory, 41 MiB are an empty
  Node.js; kube-proxy's does not include the processes that it starts.`;

const MORE = `[All measures](../lab/results/performance.md) with their targets, what was not reached and why, and how to measure
  again; [memory by size of the cluster](../lab/notes/memory.md); [capacity](operate.md#capacity).`;

/** docs/performance.md */
export function shortPage(measured: readonly Measurement[], notice: string): string {
  const current = measured.filter(({ against }) => against?.startsWith(`kube-proxy ${VERSION} `));
  const modes = MODES.filter((mode) => current.some(({ name }) => name.endsWith(` in ${mode} mode`)));
  const rows = modes.flatMap((mode) =>
    MEASURES.map(([title, start]) => {
      const { name, value, unit, baseline, ratio, n, kernel } = besideKubeProxy(current, start, mode);
      const size = / at (\d+x\d+), /.exec(name)?.[1] ?? '';
      const [ours, theirs] = [quantity(value, unit), quantity(baseline ?? NaN, unit)];
      return [mode, size, title, ours, theirs, ratio === null ? '' : `${ratio}x`, String(n), kernel];
    }),
  );
  const missing = MODES.filter((mode) => !modes.includes(mode)).map((mode) => {
    return wrap(`In ${mode} mode, only an earlier kube-proxy was measured so far: [plot](${plotOf(mode)}).`);
  });
  return [
    '# Performance',
    notice,
    wrap(INTRODUCTION),
    table(COLUMNS, rows),
    ...missing,
    wrap(READING),
    ...modes.map((mode) => `![${mode} mode, first sync, one endpoint more and memory](${plotOf(mode)})`),
    `${wrap(MORE)}\n`,
  ].join('\n\n');
}

function plotOf(mode: (typeof MODES)[number]): string {
  return `../lab/results/plots/kube-proxy${mode === 'ipvs' ? '' : `-${mode}`}.svg`;
}
