import { errorText } from '../../base/text/error-text.ts';
import type { Kernel, NodeAddress } from '../../kernel/kernel.ts';
import { formatIp } from '../../base/ip.ts';
import type { Log } from '../../observe/log/log.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import { forwardingNotes } from './node-difference.ts';
import { type NodeSettings, differingSettings } from './node-settings.ts';
import type { NodeFindings } from '../../state/sync-report.ts';

export const NO_FINDINGS: NodeFindings = {
  deviceMade: false,
  deviceError: undefined,
  settingsRepaired: [],
  problems: [],
};

const SHOWN = 10;

/** Checks and restores kube-ipvs0, sysctls and IPVS timeouts. Remembers only which problems and notes were logged. */
export class NodeCheck {
  readonly #kernel: Kernel;
  readonly #settings: NodeSettings;
  readonly #log: Log;
  #loggedProblems: ReadonlySet<string> = new Set();
  #loggedNotes: ReadonlySet<string> = new Set();

  constructor(kernel: Kernel, settings: NodeSettings, log: Log) {
    this.#kernel = kernel;
    this.#settings = settings;
    this.#log = log;
  }

  /**
   * Checks and repairs the node. Rejects if IPVS requests fail.
   *
   * @param nodeAddresses without those of kube-ipvs0
   * @param known problems that others have found, to report with those found here
   */
  async run(
    plan: NodePlan,
    nodeAddresses: readonly NodeAddress[],
    known: readonly string[] = [],
  ): Promise<NodeFindings> {
    const repaired: string[] = [];
    const problems = [...known];
    // This request loads ip_vs if it was unloaded; the IPVS sysctls exist only while it is loaded.
    await this.#kernel.getIpvsTimeouts();
    for (const { text, restore } of await differingSettings(this.#kernel, this.#settings)) {
      try {
        await restore(this.#kernel);
        repaired.push(text);
      } catch (error) {
        problems.push(errorText(error));
      }
    }
    const device = await this.#ensureDevice();
    if (device.deviceError !== undefined) problems.push(device.deviceError.message);
    for (const problem of elsewhere(plan, nodeAddresses)) problems.push(problem);
    this.#report(repaired, problems, await forwardingNotes(this.#kernel, plan));
    return { ...device, settingsRepaired: repaired, problems };
  }

  /** Logs each problem and each note once, and again when it is solved. */
  #report(repaired: readonly string[], problems: readonly string[], notes: readonly string[]): void {
    const log = this.#log;
    for (const setting of repaired) log.warn(`another process changed a setting of this node: ${setting}`);
    this.#loggedProblems = this.#logNew(problems, this.#loggedProblems, (problem) => log.error(problem));
    this.#loggedNotes = this.#logNew(notes, this.#loggedNotes, (note) => log.warn(note));
  }

  #logNew(now: readonly string[], logged: ReadonlySet<string>, write: (text: string) => void): ReadonlySet<string> {
    for (const text of now) if (!logged.has(text)) write(text);
    for (const text of logged) if (!now.includes(text)) this.#log.info(`this problem no longer exists: ${text}`);
    return new Set(now);
  }

  async #ensureDevice(): Promise<Pick<NodeFindings, 'deviceMade' | 'deviceError'>> {
    try {
      const { made } = await this.#kernel.ensureDevice();
      return { deviceMade: made, deviceError: undefined };
    } catch (error) {
      return { deviceMade: false, deviceError: error instanceof Error ? error : new Error(String(error)) };
    }
  }
}

/** Returns a problem if an interface other than kube-ipvs0, such as a renamed kube-ipvs0, has service addresses. */
function elsewhere(plan: NodePlan, nodeAddresses: readonly NodeAddress[]): string[] {
  const found = nodeAddresses.filter(({ address }) => plan.wantsAddress(address));
  if (found.length === 0) return [];
  const shown = found.slice(0, SHOWN).map(({ address, interfaceName }) => `${formatIp(address)} on ${interfaceName}`);
  const rest = found.length > SHOWN ? `, and ${found.length - SHOWN} more` : '';
  return [
    `addresses of Services are on other interfaces than kube-ipvs0: ${shown.join(', ')}${rest}; remove them there`,
  ];
}
