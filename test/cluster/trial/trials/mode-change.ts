import { configure } from '../configuration.ts';
import type { TrialContext } from '../context.ts';
import { OurPods } from '../our-pods.ts';
import type { Trial } from '../trial.ts';

const RETIRED_SECONDS = 60;
const TABLE = 'table ip kube-proxy';

/** The way out of IPVS, and back. */
export const modeChange: Trial = {
  name: 'mode-change',
  what: 'the mode in the ConfigMap changed from ipvs to nftables and back, and the DaemonSet rolled each time',
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    context.step('from ipvs to nftables');
    const before = await configure(context, (text) => text.replace(/^mode: ipvs$/m, 'mode: nftables'));
    await expectMode(context, 'nftables');
    for (const { name } of context.state.nodes) {
      context.check(`${name} has the tables`, (await tablesOf(context, name)).includes(TABLE));
    }
    context.say(`nodes with virtual servers that still have connections: ${await nodesWithIpvs(context)}`);
    await context.wait(10);

    context.step('back to ipvs');
    await configure(context, () => before);
    await expectMode(context, 'ipvs');
    for (const { name } of context.state.nodes) {
      const gone = async (): Promise<boolean> => !(await tablesOf(context, name)).includes(TABLE);
      const seconds = await context.until(`the tables of ${name} are deleted`, RETIRED_SECONDS, gone);
      context.say(`the tables of ${name} are deleted after ${seconds} s`);
    }
    await context.wait(5);
  },
};

async function expectMode(context: TrialContext, mode: string): Promise<void> {
  for (const { node, mode: found } of await new OurPods(context).modes()) {
    context.check(`status on ${node} says ${mode} (${found})`, found === mode);
  }
}

async function tablesOf(context: TrialContext, node: string): Promise<string> {
  return context.node(node, 'nft list tables');
}

async function nodesWithIpvs(context: TrialContext): Promise<number> {
  let count = 0;
  for (const { name } of context.state.nodes) if (/^-A/m.test(await context.node(name, 'ipvsadm -Sn'))) count += 1;
  return count;
}
