import type { IpFamily } from '../../base/ip.ts';
import { MODES } from '../../base/proxy-mode.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { LogControl } from '../../observe/log/winston-log.ts';
import { Shadow } from '../../reconcile/shadow.ts';
import { SYSTEM_CLOCK as clock } from '../../reconcile/timing/clock.ts';
import { loadMode } from '../modes/load-mode.ts';
import {
  type Program,
  answerQuestions,
  awaitOwnNode,
  followSource,
  listen,
  logStart,
  openProgram,
  watchConfig,
} from '../run/program.ts';
import { runUntilStopped } from '../run/until-stopped.ts';
import { type UsableFamilies, usableFamilies, wantedSettings } from '../startup/kernel-setup.ts';
import { requireRights } from '../startup/rights.ts';
import { ShadowPublisher } from './shadow-publisher.ts';

/**
 * Runs until SIGTERM, SIGINT or a configuration change. Resolves to the exit code. Writes nothing but the socket of
 * --query-socket: its kernel only reads, and it sends no Events.
 */
export function runShadow(config: ProxyConfig): Promise<number> {
  return runUntilStopped(config, start, 'stopped: this dry run has changed nothing');
}

async function start(
  config: ProxyConfig,
  control: LogControl,
  stop: AbortController,
  started: AsyncDisposableStack,
): Promise<void> {
  const program = openProgram(config, control, stop, started, []);
  const { log, metrics, health, history, cluster } = program;
  requireRights({ rules: MODES[config.mode].rules === 'iptables' });

  const kernel = await openKernel(program);
  // In ipvs mode, the first request that needs IPVS and privileges.
  await kernel.getIpvsTimeouts();
  const usable = await readableFamilies(kernel, program);
  logStart('kube-ipvs-proxy is starting as a shadow (--dry-run): it changes nothing', program, usable);

  const publisher = new ShadowPublisher({ metrics, health, clock, log: log.child('shadow') });
  let shadow: Shadow | undefined;
  await listen(program);
  await answerQuestions(program, usable, { kernel, reconciler: () => shadow, shadow: () => publisher.last });
  watchConfig(program);

  followSource(program, () => shadow);
  const plan = await awaitOwnNode(program, usable.families);
  if (plan === undefined) return;
  const comparing = new Shadow({
    kernel,
    cluster,
    plan,
    nodeSettings: await wantedSettings(kernel, config),
    onChanged: (services) => history.changed(services),
    observer: publisher,
    nodeIpOverride: config.nodeIpOverride,
    excludeCidrs: config.excludeCidrs,
    syncPeriodMs: config.syncPeriod,
    clock,
    log: log.child('shadow'),
  });
  shadow = comparing;
  started.defer(() => comparing.stop());
  started.defer(
    kernel.watchNode(
      () => comparing.nodeAddressesChanged(),
      () => comparing.kernelStateLost(),
    ),
  );
  health.started(usable.families, clock.now());
  shadow.clusterChanged();
}

async function openKernel({ config, metrics, log, started }: Program): Promise<KernelReader> {
  const kernel = (await loadMode(config.mode)).createReader({
    log: log.child('kernel'),
    onProgram: (name) => metrics.processStarted(name),
  });
  started.defer(() => kernel.close());
  return kernel;
}

/** Returns the families whose rules can be read. */
function readableFamilies(kernel: KernelReader, { config, log }: Program): Promise<UsableFamilies> {
  const probe = {
    getSysctl: (key: string) => kernel.getSysctl(key),
    probeRules: (family: IpFamily) => kernel.findRuleVariant(family),
  };
  return usableFamilies(probe, config, log);
}
