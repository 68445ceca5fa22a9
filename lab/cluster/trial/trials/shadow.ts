import path from 'node:path';
import { type CommandResult, runCommand } from '../../../../test/bed/command.ts';
import { PROJECT } from '../../folders.ts';
import type { TrialContext } from '../context.ts';
import { checkSame, readNodes } from '../node-state.ts';
import { DEPLOYMENT, SERVER_SELECTOR } from '../servers.ts';
import type { Trial } from '../trial.ts';

/** kube-proxy writes a change at most once a second, and the dry run compares 5 s after it. */
const SETTLED_SECONDS = 60;
const COMMAND_MS = 300_000;

/** The dry run must find what kube-proxy does differently on purpose, and nothing else. */
export const shadow: Trial = {
  name: 'shadow',
  what:
    'a dry run of ours on every node beside kube-proxy in ipvs mode, as scripts/migrate installs it, while Services of ' +
    'all kinds come, change and go',
  proxies: ['kube-proxy-ipvs'],
  about: { proxy: 'ours', overlay: 'shadow' },
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const alone = await readNodes(context);
    context.step('scripts/migrate shadow');
    try {
      await compare(context, 'beside the Services of the cluster');
      checkSame(context, alone, await readNodes(context), 'are as kube-proxy left them');
      context.step('Services of all kinds');
      await context.apply(services(context.namespace));
      await context.own(['patch', 'service', 'balanced', '--subresource=status', `--patch=${BALANCED_STATUS}`]);
      await compare(context, 'with Services of all kinds');
      context.step('more servers');
      await context.own(['scale', DEPLOYMENT, '--replicas=7']);
      await context.rollout(DEPLOYMENT);
      await compare(context, 'with more servers');
      context.step('Services change their kind');
      for (const [name, spec] of CHANGES) await context.own(['patch', 'service', name, `--patch=${spec}`]);
      await compare(context, 'after the changes');
      context.step('the Services are deleted');
      await context.own(['delete', 'services', `--selector=${LABEL}=yes`]);
      await compare(context, 'after their deletion');
    } finally {
      context.step('scripts/migrate shadow --remove');
      const before = await readNodes(context);
      await migrate(context, ['shadow', '--remove']);
      await context.wait(5);
      checkSame(context, before, await readNodes(context), 'are the same without the dry run');
    }
  },
};

const LABEL = 'shadow-trial';
const BALANCED_STATUS = JSON.stringify({
  status: { loadBalancer: { ingress: [{ ip: '203.0.113.10' }, { ip: '203.0.113.11', ipMode: 'Proxy' }] } },
});

const CHANGES = [
  ['affine', JSON.stringify({ spec: { sessionAffinity: 'None' } })],
  ['plain', JSON.stringify({ spec: { type: 'NodePort', externalTrafficPolicy: 'Local' } })],
  ['external', JSON.stringify({ spec: { externalIPs: ['198.51.100.2'] } })],
  ['balanced', JSON.stringify({ spec: { loadBalancerSourceRanges: ['192.0.2.0/24'] } })],
] as const;

function services(namespace: string): readonly unknown[] {
  const [key = '', value = ''] = SERVER_SELECTOR.split('=');
  const web = { port: 80, targetPort: 8080 };
  const specs: Readonly<Record<string, object>> = {
    plain: {
      ports: [
        { ...web, name: 'tcp' },
        { ...web, name: 'udp', protocol: 'UDP' },
      ],
    },
    affine: {
      ports: [web],
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 120 } },
    },
    'inside-local': { ports: [web], internalTrafficPolicy: 'Local' },
    'node-port': { type: 'NodePort', ports: [web, { ...web, name: 'udp', protocol: 'UDP' }].map(named) },
    'node-port-local': { type: 'NodePort', ports: [web], externalTrafficPolicy: 'Local' },
    external: { ports: [web], externalIPs: ['198.51.100.1', '198.51.100.2'] },
    balanced: {
      type: 'LoadBalancer',
      ports: [web],
      externalTrafficPolicy: 'Local',
      loadBalancerSourceRanges: ['192.0.2.0/24', '198.51.100.0/24'],
    },
    'without-endpoints': { ports: [web], selector: { app: 'nothing-has-this' } },
    headless: { clusterIP: 'None', ports: [web] },
    elsewhere: { type: 'ExternalName', externalName: 'example.org', selector: null },
  };
  return Object.entries(specs).map(([name, spec]) => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace, labels: { [LABEL]: 'yes' } },
    spec: { selector: { [key]: value }, ...spec },
  }));
}

function named(port: object, index: number): object {
  return { name: `port-${index}`, ...port };
}

/** Asks until no node has an unexpected difference. */
async function compare(context: TrialContext, when: string): Promise<void> {
  const { nodes } = context.state;
  let said: CommandResult | undefined;
  const begin = performance.now();
  do said = await migrate(context, ['shadow'], true);
  while (said.status !== 0 && performance.now() - begin < SETTLED_SECONDS * 1000);
  for (const line of `${said.stdout}${said.stderr}`.trimEnd().split('\n')) context.say(`  ${line}`);
  const clean = said.stdout.split('\n').filter((line) => line.includes(': no unexpected differences')).length;
  context.check(`${clean} of ${nodes.length} nodes differ only as expected ${when}`, clean === nodes.length);
}

function migrate(context: TrialContext, args: readonly string[], allowFailure = false): Promise<CommandResult> {
  const env = { ...process.env, PATH: `${context.folder.root}:${process.env['PATH'] ?? ''}` };
  return runCommand([path.join(PROJECT, 'scripts/migrate'), ...args], { env, timeoutMs: COMMAND_MS, allowFailure });
}
