import { MODES } from '../base/proxy-mode.ts';
import { counted } from '../base/text/counted.ts';
import { shadowWords } from '../explain/difference/difference-tally.ts';
import type { KernelStatusReply, Listed, StatusReply, SyncText } from '../explain/replies.ts';
import { wordsOf } from '../explain/words.ts';
import { ask } from './ask.ts';
import { askOrRead } from './ask-or-read.ts';
import { aligned, wrapped } from './output.ts';
import { list, silentLines } from './listed-lines.ts';
import { refusedText } from './refused-text.ts';
import type { Command, Result } from './command.ts';

export const STATUS: Command = {
  usage: '[options]',
  summary: 'what the daemon of this node is, does and lacks',
  options: {},
  run: ({ querySocket }) =>
    askOrRead(
      async (): Promise<Result> => {
        const reply = await ask<StatusReply>(querySocket, '/v1/status');
        return { reply, lines: statusLines(reply) };
      },
      async (answers) => {
        const reply = await answers.status();
        return { reply, lines: kernelStatusLines(reply) };
      },
    ),
};

/** Returns the lines of a node on which no daemon runs. */
export function kernelStatusLines(reply: KernelStatusReply): string[] {
  const { verdict, mode, objects, sets, unserved, conntrack } = reply;
  return [
    ...wrapped(verdict),
    '',
    ...aligned([
      ['mode', mode],
      ['objects', [objectsText(mode, objects), entriesText(objects, sets)].join(', ')],
      ['sets', setsText(sets)],
      ['conntrack', conntrackText(conntrack)],
    ]),
    ...list(`${wordsOf(mode).served}s that refuse new connections`, unserved, (servicePort) => servicePort),
  ];
}

export function statusLines(status: StatusReply): string[] {
  const { verdict, refused, conflicts, warnings, draining, repairs, settings, notes, health, leftOfOtherModes } =
    status;
  const { apiServers } = status;
  return [
    ...wrapped(verdict),
    '',
    ...aligned(rows(status)),
    ...list('addresses of the API server', listOf(apiServers), apiServerText),
    ...list('refused by the kernel, and tried again', refused, refusedText),
    ...list(
      'claimed by several Services',
      conflicts,
      ({ claimed, owner, loser }) => `${claimed}: ${owner} has it, ${loser} not`,
    ),
    ...list('ignored parts of Services', warnings, ({ service, message }) => `${service}: ${message}`),
    ...list(
      'draining',
      draining,
      ({ virtualServer, realServer, sinceSeconds }) => `${virtualServer} -> ${realServer} since ${sinceSeconds} s`,
    ),
    ...silentLines(status.silent),
    ...list('repaired within the last hour', repairs, ({ at, command }) => `${at} ${command}`),
    ...list('settings that are not as wanted', listOf(settings), (command) => command),
    ...list('settings that stop packets, and are not changed', listOf(notes), (note) => note),
    ...list('left by other modes, and removed when possible', listOf(leftOfOtherModes), (left) => left),
    ...list('not served at localhost', status.userspace?.notServed ?? listOf([]), (text) => text),
    ...list('problems of the node', listOf(health.problems), (problem) => problem),
  ];
}

function listOf<T>(items: readonly T[]): Listed<T> {
  return { count: items.length, first: items };
}

function rows(status: StatusReply): string[][] {
  const { version, commit, startedAt, uptimeSeconds, mode, source, watches, watchesSince } = status;
  const { syncs, objects, sets, conntrack, health, lastEventAt, shadow, userspace } = status;
  const states = Object.entries(watches).map(
    ([resource, state]) => `${resource} ${state} since ${watchesSince[resource]}`,
  );
  return [
    ['version', `${version}, commit ${commit.slice(0, 12)}`],
    ['up', `${uptimeSeconds} s, since ${startedAt}`],
    ['mode', modeText(status)],
    ['configuration', status.configuration],
    ['source', [source, ...states].join(', ')],
    ['last event', lastEventAt ?? 'none yet'],
    ['first sync', syncText(syncs.first)],
    ['last change', syncText(syncs.change)],
    ['last full check', syncText(syncs.full)],
    [
      'next full check',
      syncs.nextFullCheckInSeconds === undefined ? 'running' : `in ${syncs.nextFullCheckInSeconds} s`,
    ],
    [
      'objects',
      [
        counted(objects.services, 'Service'),
        counted(objects.endpointSlices, 'EndpointSlice'),
        objectsText(mode, objects),
        entriesText(objects, sets),
      ].join(', '),
    ],
    ['sets', setsText(sets)],
    ...(shadow === undefined ? [] : [['shadow', `${shadowWords(shadow)}, compared ${shadow.comparedAt}`]]),
    ['conntrack', conntrackText(conntrack)],
    ...(userspace === undefined ? [] : [['user space', userspaceText(userspace)]]),
    ['health', health.healthy ? 'healthy' : (health.reason ?? 'not healthy')],
  ];
}

function apiServerText({ server, inUse, answeredAt, failedAt, failure }: StatusReply['apiServers'][number]): string {
  const parts = [
    inUse ? 'in use' : 'not in use',
    ...(answeredAt === undefined ? [] : [`answered ${answeredAt}`]),
    ...(failedAt === undefined ? [] : [`failed ${failedAt}: ${failure}`]),
  ];
  return `${server} ${parts.join(', ')}`;
}

/** In the modes without IPVS, there is one way to choose an endpoint, and nftables mode needs no iptables. */
function modeText({ mode, families, iptables, scheduler }: StatusReply): string {
  const shared = `${mode}, ${families.join(' and ')}`;
  return MODES[mode].hasIpvs ? `${shared}, iptables ${iptables}, scheduler ${scheduler}` : shared;
}

function objectsText(mode: StatusReply['mode'], objects: KernelStatusReply['objects']): string {
  return MODES[mode].hasIpvs ? serversText(objects) : servicePortsText(objects);
}

function serversText({ virtualServers, realServers, addresses }: KernelStatusReply['objects']): string {
  return [
    counted(virtualServers, 'virtual server'),
    counted(realServers, 'real server'),
    counted(addresses, 'address', 'addresses'),
  ].join(', ');
}

/** Service addresses are not bound in nftables mode. */
function servicePortsText({ virtualServers, realServers }: KernelStatusReply['objects']): string {
  return `${counted(virtualServers, 'service port')}, ${counted(realServers, 'endpoint')}`;
}

function entriesText({ setEntries }: KernelStatusReply['objects'], sets: StatusReply['sets']): string {
  return `${counted(setEntries, 'entry', 'entries')} of ${counted(sets.length, 'set')}`;
}

/** The fullest set first; without capacities, the largest. */
function setsText(sets: StatusReply['sets']): string {
  const texts = sets
    .toSorted((a, b) => fullness(b) - fullness(a))
    .map(({ name, entries, capacity }) => `${name} ${entries}${capacity === undefined ? '' : ` of ${capacity}`}`);
  return texts.length === 0 ? '-' : texts.join(', ');
}

function fullness({ entries, capacity = 1 }: StatusReply['sets'][number]): number {
  return entries / capacity;
}

function userspaceText(userspace: NonNullable<StatusReply['userspace']>): string {
  const { listeners, connections, active, refused, failed } = userspace;
  const counts = [`${connections} so far`, `${refused} refused`, `${failed} without a working endpoint`];
  return `${counted(listeners, 'port')}, ${counted(active, 'connection')} (${counts.join(', ')})`;
}

function conntrackText(conntrack: StatusReply['conntrack']): string {
  return conntrack === undefined ? '-' : `${conntrack.used} of ${conntrack.max}`;
}

function syncText(sync: SyncText | undefined): string {
  if (sync === undefined) return 'none yet';
  return `${sync.ok ? '' : `failed (${sync.error}), `}took ${sync.seconds} s, ended ${sync.endedAt}`;
}
