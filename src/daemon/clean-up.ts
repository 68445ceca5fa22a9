import { errorText } from '../base/text/error-text.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';
import { createCommandRunner } from '../kernel/command-runner.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { Leftovers, describeLeftover } from '../kernel/leftovers/leftovers.ts';
import { createIpvsKernel } from '../kernel/ipvs/ipvs-kernel.ts';
import type { Log } from '../observe/log/log.ts';
import { createPodPreparer } from './run/create-pod-preparer.ts';
import { runningDaemon } from './startup/daemon-lock.ts';
import { reportFailure } from './startup/report-failure.ts';
import { openLog } from './startup/open-log.ts';
import { requireRights } from './startup/rights.ts';
import { StartupError } from './startup/startup-error.ts';
import { removalAttempts, removeOwn } from './modes/remove-own.ts';

/** Removes the kernel objects of this proxy and of kube-proxy in any mode. Resolves to the exit code. */
export async function cleanUp(config: ProxyConfig): Promise<number> {
  const { log } = openLog(config);
  return reportFailure(log, async () => {
    requireRights({ rules: true, podNamespaces: config.prepareDirectPods });
    requireNoDaemon(await runningDaemon(), config.force, log);
    const kernel = createIpvsKernel({ log: log.child('kernel') });
    try {
      const withdrawn = !config.prepareDirectPods || (await withdrawFromPods(kernel, config, log));
      const code = await removeAll(kernel, new Leftovers(createCommandRunner()), config, log);
      return withdrawn ? code : 1;
    } finally {
      await kernel.close();
    }
  });
}

/** Takes our devices and addresses out of the Pods of this node. Resolves to whether that succeeded. */
async function withdrawFromPods(kernel: Kernel, config: ProxyConfig, log: Log): Promise<boolean> {
  try {
    await createPodPreparer({
      folder: config.podNamespaceFolder,
      kernel,
      log,
      onWarning: () => undefined,
    }).withdrawAll();
    return true;
  } catch (error) {
    log.error(
      `failed to remove our devices and addresses from the Pods that answer clients without NAT: ${errorText(error)}`,
    );
    return false;
  }
}

/** Throws if a daemon is running and `force` is false: it would recreate all objects, and connections would break. */
export function requireNoDaemon(daemon: string | undefined, force: boolean, log: Log): void {
  if (daemon === undefined) return;
  if (!force) {
    throw new StartupError(
      `kube-ipvs-proxy runs in this network namespace (${daemon}): stop that daemon first, because it would write everything again. ` +
        'With --force everything is removed anyway, and connections through Services break',
    );
  }
  log.warn(
    `kube-ipvs-proxy runs in this network namespace (${daemon}): removing everything because of --force. The daemon will create everything again; ` +
      'until then Services are unavailable and connections break',
  );
}

/**
 * Removes leftovers of other modes first, because they refer to our chains; then our rules, because they refer to the
 * sets; then virtual servers, routes and sets; kube-ipvs0 last. Missing objects are not an error. Resolves to the exit code.
 */
export async function removeAll(
  kernel: Kernel,
  others: Pick<Leftovers, 'find' | 'remove'>,
  config: ProxyConfig,
  log: Log,
): Promise<number> {
  let failed = 0;
  const attempt = removalAttempts(log, () => failed++);
  await attempt('leftovers of other kube-proxy modes', async () => {
    for (const leftover of await others.find()) {
      const what = describeLeftover(leftover);
      await attempt(what, async () => {
        await others.remove(leftover);
        log.info(`removed leftovers of another kube-proxy mode: ${what}`);
      });
    }
  });
  failed += await removeOwn(kernel, config, log);
  await attempt('kube-ipvs0', () => kernel.removeDevice());
  return failed === 0 ? 0 : 1;
}
