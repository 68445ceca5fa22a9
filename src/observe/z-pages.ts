import { formatDuration } from '../base/duration.ts';
import { VERSION } from '../config/version.ts';
import { wallNow } from '../base/wall-clock.ts';
import { escapeUnprintable } from '../base/text/escape-unprintable.ts';
import { redact } from './log/printable.ts';

function page(name: string, lines: readonly string[]): string {
  const head = [
    `kube-ipvs-proxy ${name}`,
    'For people who look into a problem: no program should rely on how this is written.',
  ];
  return `${[...head, '', ...lines].join('\n')}\n`;
}

/** @param flags each as "name=value" */
export function flagzPage(flags: readonly string[]): string {
  return page(
    'flagz',
    flags.map((flag) => escapeUnprintable(redact(flag))),
  );
}

export function statuszPage(paths: readonly string[]): string {
  return page('statusz', [
    `Started: ${new Date(wallNow() - performance.now()).toISOString()}`,
    `Up: ${formatDuration(Math.floor(process.uptime()) * 1000)}`,
    `Node.js version: ${process.version}`,
    `Binary version: ${VERSION}`,
    `Paths: ${paths.toSorted().join(' ')}`,
  ]);
}
