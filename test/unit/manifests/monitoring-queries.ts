import { readFileSync } from 'node:fs';
import { at, isItem, itemsOf, readYaml } from './kustomization.ts';

const [rulesFile = {}] = readYaml('manifests/monitoring/prometheus-rules.yaml');
export const ALERTS = itemsOf(at(rulesFile, 'spec')['groups']).flatMap((group) => itemsOf(group['rules']));
const dashboard: unknown = JSON.parse(readFileSync('manifests/monitoring/grafana-dashboard.json', 'utf8'));
export const DASHBOARD = isItem(dashboard) ? dashboard : {};
export const PANELS = itemsOf(DASHBOARD['panels']);

/** Every query of alerts and dashboard, and where it is. */
export const QUERIES: readonly (readonly [where: string, query: string])[] = [
  ...ALERTS.map((alert) => [String(alert['alert']), String(alert['expr'])] as const),
  ...PANELS.flatMap((panel) =>
    itemsOf(panel['targets']).map(({ expr }) => [`panel "${String(panel['title'])}"`, String(expr)] as const),
  ),
];
