import { MAX_NAMED, firstFew } from '../../base/text/first-few.ts';
import { type IpFamily, familyOf } from '../../base/ip.ts';
import { diffRoutes } from '../../diff/route-diff.ts';
import { toolCommand } from '../../state/commands/tool-command.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import { planLocalRoutes, type PlanConfig } from '../../plan/plan-config.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import { planRules } from '../../plan/ipvs/plan-rules.ts';
import { type Op, familyOfOp } from '../../state/op.ts';
import { type NodeSettings, differingSettings } from './node-settings.ts';

/**
 * The state that Services share on this node: sysctls, timeouts, local routes and rules, with what is wanted of them.
 */
export interface NodeParts {
  readonly kernel: Pick<KernelReader, 'getSysctl' | 'getIpvsTimeouts' | 'getLocalRoutes' | 'findUnforwarded'>;
  readonly config: PlanConfig;
  readonly settings: NodeSettings;
  readonly compareRules: KernelReader['compareRules'];
}

/** Returns the commands that bring the node itself to the plan, where traffic of these families passes. */
export async function differingNode(parts: NodeParts, families: ReadonlySet<IpFamily>): Promise<string[]> {
  const commands = await differingShared(parts, families);
  for (const family of families) {
    const { missing } = await parts.compareRules(planRules(parts.config, family));
    for (const { command } of missing) commands.push(command);
  }
  return commands;
}

/** The same without the rules. */
export async function differingShared(
  { kernel, config, settings }: Omit<NodeParts, 'compareRules'>,
  families: ReadonlySet<IpFamily>,
): Promise<string[]> {
  const routes = (await differingRoutes(kernel, config)).filter((op) => families.has(familyOfOp(op)));
  const ofSettings = (await differingSettings(kernel, settings)).map(({ command }) => command);
  return [...ofSettings, ...routes.map(toolCommand)];
}

/** Returns the operations that bring the local routes to the plan. Unless `always`, they are read only if some are planned. */
export async function differingRoutes(
  kernel: Pick<KernelReader, 'getLocalRoutes'>,
  config: PlanConfig,
  always = false,
): Promise<readonly Op[]> {
  const wanted = planLocalRoutes(config);
  return wanted.length === 0 && !always ? [] : diffRoutes(wanted, await kernel.getLocalRoutes());
}

/**
 * Returns what stops forwarded packets of Services, in sentences. These settings are the operator's decision: kube-proxy
 * does not write them either, so they are named and never changed.
 */
export async function forwardingNotes(
  kernel: Pick<KernelReader, 'getSysctl' | 'findUnforwarded'>,
  plan: Pick<NodePlan, 'virtualServers'>,
): Promise<string[]> {
  const notes: string[] = [];
  // While ip_forward is 0, all interfaces have 0. The next full check sets it, and with it all of them, to 1.
  if ((await kernel.getSysctl('net/ipv4/ip_forward')) === '1') {
    const off = await kernel.findUnforwarded();
    if (off.length > 0) notes.push(unforwardedNote(firstFew(off.slice(0, MAX_NAMED), off.length)));
  }
  if (serves(plan, 6) && (await kernel.getSysctl('net/ipv6/conf/all/forwarding')) === '0') {
    notes.push(
      'net.ipv6.conf.all.forwarding is 0, so this node forwards no IPv6 packets, as between Pods and clients of Services; ' +
        'set it to 1, and accept_ra of interfaces that need router advertisements to 2',
    );
  }
  return notes;
}

function serves(plan: Pick<NodePlan, 'virtualServers'>, family: IpFamily): boolean {
  for (const { virtualServer } of plan.virtualServers()) if (familyOf(virtualServer.address) === family) return true;
  return false;
}

/** Returns whether the node forwards packets of the family that it receives on an interface. */
export async function readForwarding(
  kernel: Pick<KernelReader, 'getSysctl' | 'findUnforwarded'>,
  family: IpFamily,
): Promise<(interfaceName: string) => boolean> {
  // For IPv6, the setting of an interface only says whether the node is a router or a host there.
  if (family === 6) {
    const all = await kernel.getSysctl('net/ipv6/conf/all/forwarding');
    return () => all !== '0';
  }
  const off = new Set(await kernel.findUnforwarded());
  return (interfaceName) => !off.has(interfaceName);
}

/** Says that packets received on these interfaces are not forwarded. */
export function unforwardedNote(interfaces: readonly string[]): string {
  return (
    `net.ipv4.conf.IF.forwarding is 0 for ${interfaces.join(', ')}: IPv4 packets that arrive there are not forwarded, ` +
    'as between Pods and clients of Services; set it to 1 unless this is intended'
  );
}
