// `make demo`: a small cluster of network namespaces on a kernel with IPVS (MODE=nftables or userspace: with nf_tables; MODE=iptables: with chains of iptables), and the daemon at
// work in it, step by step.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bed } from '../../test/bed/bed.ts';
import type { LongProcess } from '../../test/bed/long-process.ts';
import type { KeptConnection, Namespace } from '../../test/bed/namespace.ts';
import type { CommandResult } from '../../test/bed/command.ts';
import { daemonArgv, querySocketOf, startDaemon } from '../../test/support/daemon.ts';
import { DEMO_MODE, listKernel } from './demo-mode.ts';
import { Transcript } from './transcript.ts';

const SLICE = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-ipv4';
const CLUSTER_IP = '10.202.0.10';
const FLAGS = [...DEMO_MODE.flags, '--cluster-cidr=10.201.0.0/16,fd00:201::/48', '--ipvs-min-sync-period=0s', '-v=1'];

const out = new Transcript();

/** Asks several times on new connections; answers how often each pod answered. */
async function ask(from: Namespace, address: string, port: number, times = 6): Promise<Map<string, number>> {
  const answers = new Map<string, number>();
  for (let i = 0; i < times; i++) {
    const result = await from.probeTcp(address, port);
    const who = result.ok ? result.answeredBy : result.code;
    answers.set(who, (answers.get(who) ?? 0) + 1);
  }
  return answers;
}

/**
 * Through each address: only pods of the Service may respond, and each of them must respond at least once. (Scheduler
 * lc also counts
 * connections that have just ended, so after a load one way may well prefer one pod for a while.)
 */
async function showRequests(bed: Bed, pods: readonly string[]): Promise<void> {
  const client = bed.client(0);
  const ways = [
    ['a client through the ClusterIP', client, CLUSTER_IP, 80],
    ['a client through a NodePort', client, '10.200.0.10', 30080],
    ['a client through the external IP', client, '10.203.0.10', 80],
    ['a client through the IPv6 ClusterIP', client, 'fd00:202::a', 80],
    ['a client through the IPv6 NodePort', client, 'fd00:200::10', 30080],
    ['a pod of the service itself (hairpin)', bed.pod(0, 0), CLUSTER_IP, 80],
    ['the node itself', bed.node(0), CLUSTER_IP, 80],
  ] as const;
  const seen = new Set<string>();
  for (const [name, from, address, port] of ways) {
    const answers = await ask(from, address, port);
    for (const who of answers.keys()) seen.add(who);
    const text = Array.from(answers, ([who, count]) => `${who} ${count}x`).sort();
    const right = [...answers.keys()].every((who) => pods.includes(who));
    out.check(`${name} (${address} port ${port}): ${text.join(', ')}`, right);
  }
  out.check(
    `every pod of the service has answered: ${pods.join(', ')}`,
    pods.every((pod) => seen.has(pod)),
  );
}

async function scale(node: Namespace, server: string, addresses: readonly string[]): Promise<string> {
  const argv = ['lab/demo/patch-and-wait.ts', server, SLICE, JSON.stringify(addresses), querySocketOf(node)];
  return (await node.exec([process.execPath, ...argv], { timeoutMs: 60_000 })).stdout.trim();
}

async function showScaling(node: Namespace, server: string): Promise<void> {
  const pods = ['10.201.0.10', '10.201.0.11', '10.201.0.12'];
  const up = await scale(node, server, pods);
  out.check(`a third endpoint: ${DEMO_MODE.noticed} ${up} ms after the request to the API server was sent`, true);
  out.say(await listKernel(node));
  const down = await scale(node, server, pods.slice(0, 2));
  out.check(`and away again: ${down} ms`, true);
}

/** A subcommand, as `kubectl exec` would run it. */
function subcommand(node: Namespace, ...argv: readonly string[]): Promise<CommandResult> {
  const asked = [process.execPath, 'build/kube-ipvs-proxy.mjs', ...argv, `--query-socket=${querySocketOf(node)}`];
  return node.exec(asked, { allowFailure: true });
}

async function showSubcommands(bed: Bed, server: string): Promise<void> {
  const node = bed.node(0);
  const status = await subcommand(node, 'status');
  out.say(`kube-ipvs-proxy status\n${status.stdout}`);
  out.check('status: all is well', status.status === 0);

  const rename = async (name: string): Promise<void> => {
    const patch = JSON.stringify({ ports: [{ name, protocol: 'TCP', port: 8080 }] });
    await node.exec([process.execPath, 'lab/demo/patch.ts', `${server}${SLICE}`, patch]);
  };
  await rename('web');
  const broken = await subcommand(node, 'explain', 'web');
  out.say(`the EndpointSlice gets another port name\nkube-ipvs-proxy explain web\n${broken.stdout}`);
  out.check(
    'explain says why the Service does not answer',
    /no endpoint is used at .*: its slice has no port "http"/.test(broken.stdout.replaceAll(/\s+/g, ' ')),
  );
  await rename('http');
  await untilAnswered(bed);
  if (DEMO_MODE.hasCounters) await showTop(bed);
}

/** Waits until the daemon has noticed that the Service has endpoints again, so that the next step does not fail for lack of them. */
async function untilAnswered(bed: Bed): Promise<void> {
  for (let tries = 0; tries < 40; tries++) {
    if ((await bed.client(0).probeTcp(CLUSTER_IP, 80)).ok) return;
    await sleep(250);
  }
  throw new Error('the Service has endpoints again, and does not answer');
}

async function showTop(bed: Bed): Promise<void> {
  const load = bed.client(0).load('tcp', CLUSTER_IP, 80, { perSecond: 20, durationMs: 9_000, timeoutMs: 3_000 });
  const top = await subcommand(bed.node(0), 'top', '--by=endpoint');
  await load;
  out.say(`kube-ipvs-proxy top --by=endpoint\n${top.stdout}`);
  out.check('top names the endpoints that a client uses', top.stdout.includes('10.201.0.10:8080'));
}

/** Requests are sent all the time: none may fail. */
async function showRestart(bed: Bed, daemon: LongProcess, flags: readonly string[]): Promise<LongProcess> {
  const held = await bed.client(0).hold(CLUSTER_IP, 80);
  const load = bed.client(0).load('tcp', CLUSTER_IP, 80, { perSecond: 40, durationMs: 8_000, timeoutMs: 3_000 });
  const isKilled = DEMO_MODE.ends === 'SIGKILL';
  daemon.signal(DEMO_MODE.ends);
  if (!isKilled) await showHeld(held, 'goes on while the daemon waits for it to end');
  await daemon.ended(5_000);
  out.say(`daemon ended (${String(daemon.exit)}) while a client sends 40 requests a second; starting it again`);
  const again = await startDaemon(bed.node(0), flags);
  const { sent, failures } = await load;
  const failed = Object.values(failures).reduce((sum, count) => sum + count, 0);
  out.check(`${sent} requests while it ended and started again: ${failed} failed`, sent > 0 && failed === 0);
  if (isKilled) await showHeld(held, 'is open still');
  return again;
}

async function showHeld(held: KeptConnection, claim: string): Promise<void> {
  const kept = await held.ask();
  out.check(`a connection that was open before ${claim}`, kept.ok);
  await held.close();
}

async function showCleanUp(node: Namespace): Promise<void> {
  const { status } = await node.exec(daemonArgv(node, ['--cleanup']), { allowFailure: true, timeoutMs: 60_000 });
  out.check('kube-ipvs-proxy --cleanup: exit code 0', status === 0);
  for (const [what, { argv, ours }] of Object.entries(DEMO_MODE.leftovers)) {
    const { stdout } = await node.exec(argv);
    const left = stdout.split('\n').filter((line) => ours.test(line));
    out.check(`no ${what} left`, left.length === 0);
  }
}

async function main(): Promise<number> {
  const scratch = await mkdtemp(path.join(tmpdir(), 'demo-'));
  await using bed = await Bed.create({ nodes: 1, podsPerNode: 3, clients: 1 });
  const node = bed.node(0);
  out.step('A cluster of network namespaces: one node, three pods, an outside client');
  await Promise.all([0, 1, 2].map((index) => bed.pod(0, index).serveTcp(8080)));
  out.say('node-0    10.200.0.10   fd00:200::10\npods      10.201.0.10-12 fd00:201::10-12\nclient-0  10.200.0.100');

  const command = ['kube-ipvs-proxy', ...DEMO_MODE.flags].join(' ');
  out.step(`The API server with the objects of manifests/demo, and ${command} against it`);
  const kubeconfig = path.join(scratch, 'kubeconfig');
  const api = ['test/apiserver/main.ts', '--objects', 'manifests/demo', '--kubeconfig', kubeconfig];
  const apiServer = await node.spawn([process.execPath, ...api]);
  const [server] = await apiServer.waitForOutput(/https?:\/\/\S+/, 30_000);
  const flags = [...FLAGS, `--kubeconfig=${kubeconfig}`];
  let daemon = await startDaemon(node, flags);
  out.say(daemon.output);
  out.check('the first sync is done', true);

  out.step(DEMO_MODE.listing.map((argv) => argv.join(' ')).join('; '));
  const listing = await listKernel(node);
  out.say(listing);
  out.check(DEMO_MODE.served.claim, listing.includes(DEMO_MODE.served.text));

  out.step('Requests, and who answered');
  await showRequests(bed, ['pod-0-0', 'pod-0-1']);

  out.step('Scale up and down through the API');
  await showScaling(node, server);

  const asked = ['status', 'explain of a Service that somebody broke', ...(DEMO_MODE.hasCounters ? ['top'] : [])];
  out.step(`What the daemon says of itself: ${asked.join(', ')}`);
  await showSubcommands(bed, server);

  out.step(`End the daemon (${DEMO_MODE.ends}) and start it again while requests go on`);
  daemon = await showRestart(bed, daemon, flags);

  out.step('The same Services from --manifests manifests/demo, with no API server at all');
  await daemon.stop(10_000);
  out.check('SIGTERM: exit code 0, and the kernel keeps serving', daemon.exit === 0);
  await apiServer.stop();
  daemon = await startDaemon(node, [...FLAGS, '--manifests=manifests/demo']);
  await showRequests(bed, ['pod-0-0', 'pod-0-1']);
  await daemon.stop(10_000);

  out.step('Clean-up');
  await showCleanUp(node);
  await rm(scratch, { recursive: true });
  return out.close();
}

process.exitCode = await main();
