import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readdir, readlink } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProcessMark } from './state-file.ts';

/** The first process of the namespaces: it waits for orphans, and for nothing else. */
const REAPER = 'trap "exit 0" TERM; while :; do sleep 86400 & wait; done';

/**
 * Starts a process in new network, process and mount namespaces. While it runs, others can join them; when it ends, the
 * kernel ends every process in them and removes their interfaces and mounts.
 */
export async function startKeeper(): Promise<ProcessMark> {
  const flags = ['--net', '--pid', '--mount', '--fork', '--kill-child', '--mount-proc'];
  const child = spawn('unshare', [...flags, 'bash', '-c', REAPER], { detached: true, stdio: 'ignore' });
  await once(child, 'spawn');
  child.unref();
  if (child.pid === undefined) throw new Error('unshare has no process id');
  // It has forked, so its namespaces are complete.
  for (let i = 0; i < 100; i++) {
    const startTime = await startTimeOf(child.pid);
    if (startTime === undefined) break;
    if (await hasChild(child.pid)) return { pid: child.pid, startTime };
    await sleep(50);
  }
  throw new Error('unshare cannot make network, process and mount namespaces: this needs root');
}

/** Whether the process of this mark runs, and not another one with its id. */
export async function runs(mark: ProcessMark): Promise<boolean> {
  return (await startTimeOf(mark.pid)) === mark.startTime;
}

/** Ends the keeper, and with it everything in its namespaces. Does nothing if it has ended. */
export async function endKeeper(mark: ProcessMark): Promise<void> {
  const members = await membersOf(mark);
  if (await runs(mark)) process.kill(mark.pid, 'SIGKILL');
  for (let i = 0; i < 200; i++) {
    const left = await Promise.all([mark, ...members].map((member) => runs(member)));
    if (!left.includes(true)) return;
    await sleep(50);
  }
  throw new Error(`processes of the cluster do not end: ${members.map(({ pid }) => pid).join(' ')}`);
}

/** The network namespace of the keeper, as a path for nsenter. */
export function netnsOf(mark: ProcessMark): string {
  return `/proc/${mark.pid}/ns/net`;
}

/** The command line that runs `argv` in all namespaces of the keeper. */
export function inside(mark: ProcessMark, argv: readonly string[]): readonly string[] {
  const namespaces = `/proc/${mark.pid}/ns`;
  return [
    'nsenter',
    `--net=${namespaces}/net`,
    `--pid=${namespaces}/pid_for_children`,
    `--mount=${namespaces}/mnt`,
    '--',
    ...argv,
  ];
}

async function membersOf(mark: ProcessMark): Promise<readonly ProcessMark[]> {
  const namespace = await linkOf(`/proc/${mark.pid}/ns/pid_for_children`);
  if (namespace === undefined || !(await runs(mark))) return [];
  const members: ProcessMark[] = [];
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry) || (await linkOf(`/proc/${entry}/ns/pid`)) !== namespace) continue;
    const startTime = await startTimeOf(Number(entry));
    if (startTime !== undefined) members.push({ pid: Number(entry), startTime });
  }
  return members;
}

/** Returns undefined if the process has ended, also if nobody has waited for it yet. */
async function startTimeOf(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  // The name in parentheses may contain spaces: the fields after it begin with the state.
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields?.[0] === 'Z' ? undefined : fields?.[19];
}

async function hasChild(pid: number): Promise<boolean> {
  return (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')) !== '';
}

function linkOf(file: string): Promise<string | undefined> {
  return readlink(file).catch(() => undefined);
}
