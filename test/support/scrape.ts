import type { Selected } from '../unit/manifests/promql.ts';

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Type and help text of a metric, from the comments of an exposition. */
export interface Family {
  readonly type: string;
  readonly help: string;
}

export interface Scrape {
  readonly samples: readonly Sample[];
  readonly families: ReadonlyMap<string, Family>;
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)",?/y;

/**
 * Parses the Prometheus text format 0.0.4; throws if it is invalid.
 * @param target labels that Prometheus itself adds: job and instance
 */
export function readScrape(text: string, target: Readonly<Record<string, string>>): Scrape {
  const samples: Sample[] = [];
  const families = new Map<string, Family>();
  let help: readonly string[] = [];
  for (const line of text.split('\n')) {
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (keyword === 'HELP') help = [name, rest];
    else if (keyword === 'TYPE') {
      if (help[0] !== name || families.has(name)) throw new Error(`expected one HELP before one TYPE: ${line}`);
      families.set(name, { type: rest, help: help[1] ?? '' });
    } else if (line !== '') samples.push(sampleOf(line, target));
  }
  return { samples, families };
}

function sampleOf(line: string, target: Readonly<Record<string, string>>): Sample {
  const [all, name = '', inner = '', value = ''] = SAMPLE.exec(line) ?? [];
  if (all === undefined || Number.isNaN(Number(value.replace(/^[+-]?Inf$/, '0'))))
    throw new Error(`not a sample: ${line}`);
  const labels: Record<string, string> = { ...target };
  LABEL.lastIndex = 0;
  while (LABEL.lastIndex < inner.length) {
    const [, label = '', text] = LABEL.exec(inner) ?? [];
    if (text === undefined) throw new Error(`invalid labels: ${line}`);
    labels[label] = text.replaceAll(/\\(.)/g, (_escape, character: string) => (character === 'n' ? '\n' : character));
  }
  return { name, labels, value: Number(value.replace('Inf', 'Infinity')) };
}

/** Returns the samples that the selector matches in Prometheus. Dashboard variables stand for the target's labels. */
export function select(samples: readonly Sample[], { metric, matchers }: Selected): readonly Sample[] {
  return samples.filter(
    ({ name, labels }) =>
      name === metric &&
      matchers.every(({ label, operator, value }) => {
        const has = labels[label] ?? '';
        const wanted = value.replaceAll(/\$(job|instance)/g, (_variable, which: string) => labels[which] ?? '');
        const equal = operator.includes('~') ? new RegExp(`^(?:${wanted})$`).test(has) : has === wanted;
        return operator.startsWith('!') ? !equal : equal;
      }),
  );
}

/** A metric as docs/metrics.md describes it. `labels` is undefined if no sample shows them. */
export interface Described extends Family {
  readonly buckets: string;
  readonly labels: readonly string[] | undefined;
}

export function documentedMetrics(page: string): ReadonlyMap<string, Described> {
  const rows = page.matchAll(/^\| `(\w+)` \| (\w+)(?: \((.*?)\))? \| (.*?) \| (.*) \|$/gm);
  return new Map(
    Array.from(rows, ([, name = '', type = '', buckets = '', labels = '', help = '']) => [
      name,
      {
        type,
        buckets,
        help: help.replaceAll('&lt;', '<'),
        labels: Array.from(labels.matchAll(/`(\w+)`/g), ([, label = '']) => label).toSorted(),
      },
    ]),
  );
}

/** Returns the same for a scrape. If a metric has no sample yet, takes its labels and buckets from the page. */
export function scrapedMetrics(
  { samples, families }: Scrape,
  page: ReadonlyMap<string, Described>,
): ReadonlyMap<string, Described> {
  const described = Array.from(families, ([name, family]): [string, Described] => {
    const histogram = family.type === 'histogram';
    const own = samples.filter((sample) => sample.name === (histogram ? `${name}_bucket` : name));
    const { labels, buckets = '' } = page.get(name) ?? {};
    if (own.length === 0) return [name, { ...family, labels, buckets }];
    const seen = new Set(own.flatMap((sample) => Object.keys(sample.labels)));
    const shown = { ...family, labels: [...seen].filter((label) => label !== 'le').toSorted() };
    if (!histogram) return [name, { ...shown, buckets: '' }];
    const bounds = [...new Set(own.map((sample) => Number(sample.labels['le']?.replace('+Inf', 'Infinity'))))];
    const finite = bounds.filter(Number.isFinite).toSorted((a, b) => a - b);
    return [name, { ...shown, buckets: `${finite.length} buckets, ${finite[0]} to ${finite.at(-1)}` }];
  });
  return new Map(described);
}
