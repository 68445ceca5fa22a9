import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { type Difference, differencesOf, explains } from '../../traffic/matrix-differences.ts';
import { REASONS } from '../../traffic/matrix-reasons.ts';
import { PROXIES, recordedRuns, runOf, textsOf } from '../../traffic/matrix-record.ts';

const MODES = ['ipvs', 'nftables', 'iptables'] as const;
const RUNS = recordedRuns();
const DIFFERENCES = MODES.flatMap((mode) => differencesOf(RUNS, mode));

function nameOf({ mode, cell }: Pick<Difference, 'mode' | 'cell'>): string {
  return [mode, cell.case.service.name, cell.source, cell.destination].join(', ');
}

describe('lab/results/traffic-matrix.json', () => {
  const wanted = PROXIES.flatMap((proxy) => MODES.map((mode) => ({ proxy, mode, light: false })));

  test.each(wanted)('has all combinations of $proxy in $mode mode', (id) => {
    const run = runOf(RUNS, id);
    expect(run && textsOf(run).size).toBe(162);
  });

  test('has one reason for each difference between ours and kube-proxy', () => {
    const reasons = DIFFERENCES.map((one) => [nameOf(one), REASONS.filter((reason) => explains(reason, one)).length]);
    expect(reasons).toEqual(reasons.map(([name]) => [name, 1]));
  });

  test('has a difference for each combination that a reason names', () => {
    const names = new Set(DIFFERENCES.map((one) => nameOf(one)));
    const named = REASONS.flatMap(({ modes, services, ways }) =>
      modes.flatMap((mode) =>
        services.flatMap((service) =>
          ways.flatMap(([sources, destinations]) =>
            sources.flatMap((source) =>
              destinations.map((destination) => [mode, service, source, destination].join(', ')),
            ),
          ),
        ),
      ),
    );
    expect(named.filter((name) => !names.has(name))).toEqual([]);
  });

  test('has reasons that docs/differences.md explains', () => {
    const text = readFileSync('docs/differences.md', 'utf8');
    expect(REASONS.filter(({ item }) => !text.includes(`\n- **${item}**\n`))).toEqual([]);
  });
});
