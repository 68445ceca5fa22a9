import type { ProxyMode } from '../../../../src/base/proxy-mode.ts';
import { configure } from '../configuration.ts';
import type { TrialContext } from '../context.ts';
import { OurPods } from '../our-pods.ts';
import type { Trial } from '../trial.ts';

const RETIRED_SECONDS = 60;

/** A command of a node, and what it shows while that mode serves there. */
const SHOWN: Readonly<Record<ProxyMode, readonly [command: string, text: string]>> = {
  ipvs: ['ipvsadm -Sn', '-A -t'],
  nftables: ['nft list tables', 'table ip kube-proxy'],
  iptables: ['iptables-save -t nat', '-j KUBE-SVC-'],
  userspace: ['nft list map ip kube-proxy service-ips', 'goto choose-1'],
};

/** The ways out of IPVS, and back. */
export const modeChange: Trial = {
  name: 'mode-change',
  what: 'the mode in the ConfigMap changed from ipvs to nftables, to iptables and back, and the DaemonSet rolled each time',
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    await changeMode(context, 'ipvs', 'nftables');
    await changeMode(context, 'nftables', 'iptables');
    await changeMode(context, 'iptables', 'ipvs');
  },
};

async function changeMode(context: TrialContext, from: ProxyMode, to: ProxyMode): Promise<void> {
  context.step(`from ${from} to ${to}`);
  await configure(context, (text) => text.replace(/^mode: \w+$/m, `mode: ${to}`));
  for (const { node, mode: found } of await new OurPods(context).modes()) {
    context.check(`status on ${node} says ${to} (${found})`, found === to);
  }
  for (const { name } of context.state.nodes) {
    context.check(`${name} is served by ${to}`, await shows(context, name, to));
    // IPVS keeps the virtual servers that still have connections.
    if (from === 'ipvs') continue;
    const gone = async (): Promise<boolean> => !(await shows(context, name, from));
    const seconds = await context.until(`nothing of ${from} mode is left on ${name}`, RETIRED_SECONDS, gone);
    context.say(`nothing of ${from} mode is left on ${name} after ${seconds} s`);
  }
  if (from === 'ipvs')
    context.say(`nodes with virtual servers that still have connections: ${await nodesWithIpvs(context)}`);
  await context.wait(10);
}

async function shows(context: TrialContext, node: string, mode: ProxyMode): Promise<boolean> {
  const [command, text] = SHOWN[mode];
  return (await context.node(node, command)).includes(text);
}

async function nodesWithIpvs(context: TrialContext): Promise<number> {
  let count = 0;
  for (const { name } of context.state.nodes) if (await shows(context, name, 'ipvs')) count += 1;
  return count;
}
