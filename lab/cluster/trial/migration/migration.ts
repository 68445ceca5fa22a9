import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../../../../test/bed/command.ts';
import { PROJECT } from '../../folders.ts';
import type { TrialContext } from '../context.ts';
import { SERVER_SELECTOR } from '../servers.ts';
import type { MigratePage } from './migrate-page.ts';

const NAMESPACE = 'kube-system';
const OURS = 'kube-ipvs-proxy';
const KUBE_PROXY = 'kube-proxy';

const ROLLED_OUT_SECONDS = 300;
const SERVES_SECONDS = 120;

const STEP_1 = '1. Which mode does kube-proxy use?';
const STEP_2 = '2. Does the kernel have the modules?';
const STEP_3 = '3. Copy the configuration';
const STEP_4 = '4. Prepare the manifests';
const STEP_5 = '5. Never run both on one node';
const STEP_6 = '6. One node';
const STEP_8 = '8. After the last node';
const ROLLBACK = 'Rollback';

/** The steps of docs/migrate.md, in a cluster that runs kube-proxy. The commands are those of the page. */
export class Migration {
  readonly #context: TrialContext;
  readonly #page: MigratePage;
  readonly #overlay: string;
  readonly #home: string;

  constructor(context: TrialContext, page: MigratePage, overlay: 'privileged' | 'restricted') {
    this.#context = context;
    this.#page = page;
    this.#overlay = overlay;
    this.#home = path.join(context.folder.root, 'migration');
  }

  /** Steps 1 to 5. They change nothing on the nodes but the template of kube-proxy's Pods. */
  async prepare(mode: 'ipvs' | 'iptables'): Promise<void> {
    const { nodes } = this.#context.state;
    for (const { name } of nodes) {
      const answer = await this.#context.node(name, this.#page.block(STEP_1, '/proxyMode'));
      this.#context.check(`kube-proxy on ${name} runs in mode ${mode} (${answer})`, answer === mode);
      await this.#context.node(name, replaced(this.#page.block(STEP_2, '/proc/net/ip_vs'), 'ip_vs_lc', 'ip_vs_rr'));
    }
    await this.#makeHome();
    await this.#run(this.#page.block(STEP_3, 'mkdir my-cluster'), this.#home);
    await this.#run(this.#page.block(STEP_3, '> config.conf'));
    const effective = path.join(this.#home, 'effective.yaml');
    const check = this.#page.block(STEP_3, '--write-config-to');
    const shown = await this.#run(replaced(check, '/tmp/effective.yaml', effective));
    this.#context.check('the copied configuration has mode ipvs', /^(?:\S+:)?mode: ipvs$/m.test(shown));
    await writeFile(path.join(this.#folder, 'kustomization.yaml'), this.#kustomization());
    await this.#run('kubectl kustomize . >/dev/null; kubectl auth can-i list endpointslices -A');
    await this.#run(this.#page.block(STEP_5, 'patch daemonset kube-proxy'));
    const daemonSets = await this.#run('kubectl -n kube-system get daemonset kube-proxy kube-ipvs-proxy --no-headers');
    const desired = [...daemonSets.matchAll(/^(\S+) +(\d+)/gm)].map(([, name, count]) => `${name} ${count}`);
    this.#context.check(
      `kube-proxy is on all nodes and kube-ipvs-proxy on none (${desired.join(', ')})`,
      desired.join() === [`${KUBE_PROXY} ${nodes.length}`, `${OURS} 0`].join(),
    );
  }

  /** Step 6, with all checks of its table. */
  async move(node: string): Promise<void> {
    const context = this.#context;
    await context.node(node, this.#page.block(STEP_6, 'ipvsadm -Sn'));
    context.step(`${node}: kubectl label node, kube-proxy to kube-ipvs-proxy`);
    const commands = this.#page.block(STEP_6, 'kubectl label node');
    await this.#run(ofNode(commands.split('\n')[0] ?? '', node));
    await this.#awaitProxy(OURS, node);
    await this.#run(commands.split('\n').slice(1).join('\n'));
  }

  /** The table of step 6. `sameServers` is false if kube-proxy ran in another mode, without virtual servers. */
  async verify(node: string, { sameServers }: { readonly sameServers: boolean }): Promise<void> {
    const context = this.#context;
    const onNode = async (text: string): Promise<string> =>
      (await context.nodeResult(node, this.#page.tableCommand(STEP_6, text))).stdout;
    const log = await this.#run(
      this.#page.tableCommand(STEP_6, 'logs POD').replace('POD', await this.#podOn(OURS, node)),
    );
    context.check(
      `${node}: the first sync had no failures`,
      /initial sync complete: this node serves traffic.* failures=0/.test(log),
    );
    context.check(`${node}: the mode is ipvs`, (await onNode('/proxyMode')) === 'ipvs');
    const health = await onNode('/healthz');
    const healthy = [/^HTTP\S+ 200/, /"healthy": ?true/, /"nodeEligible": ?true/].every((each) => each.test(health));
    context.check(`${node}: /healthz is 200`, healthy);
    const difference = await onNode('diff /tmp/before');
    if (sameServers)
      context.check(`${node}: the virtual servers are those of before (${difference})`, difference === '');
    const metrics = await onNode('kubeipvs_');
    const bad = metrics
      .split('\n')
      .filter((line) => /result="failed"|outcome="failed"|drift/.test(line) && !line.endsWith(' 0'));
    context.check(
      `${node}: no sync and no operation failed, no drift (${bad.join('; ')})`,
      metrics.includes('kubeipvs_sync_total') && bad.length === 0,
    );
    const servers = (await context.pods(SERVER_SELECTOR)).filter((pod) => pod.node === node && pod.ready);
    const lookup = await context.own(['exec', servers[0]?.name ?? '', '--', 'nslookup', 'kubernetes.default']);
    context.check(`${node}: a Pod resolves kubernetes.default`, /^Address: 10\.96\.0\.1$/m.test(lookup));
  }

  /** Step 8. */
  async finish(): Promise<void> {
    const context = this.#context;
    context.step('after the last node: kube-proxy runs on no node, kube-ipvs-proxy on every node');
    await this.#run(this.#page.block(STEP_8, 'patch daemonset kube-proxy'));
    await this.#writeKustomization((text) => text.replace(COMPONENTS, ''));
    await this.#run('kubectl apply -k .');
    await context.rollout(`daemonset/${OURS}`, NAMESPACE);
  }

  /** The way back of one node, before step 8. */
  async moveBack(node: string): Promise<void> {
    const context = this.#context;
    context.step(`${node}: label removed, kube-ipvs-proxy to kube-proxy`);
    const [unlabel = ''] = this.#page.block(ROLLBACK, 'service-proxy-').split('\n');
    await this.#run(ofNode(unlabel, node));
    await this.#awaitProxy(KUBE_PROXY, node);
  }

  /** The way back of all nodes after step 8. */
  async allBack(): Promise<void> {
    const context = this.#context;
    context.step('the way back: the node selector of kube-proxy is removed, labelled-nodes added');
    await this.#run(this.#page.block(STEP_8, 'patch daemonset kube-proxy').replace('"replaced"', 'null'));
    await this.#writeKustomization(() => this.#kustomization());
    await this.#run('kubectl apply -k .');
    await context.rollout(`daemonset/${OURS}`, NAMESPACE);
    for (const { name } of context.state.nodes) {
      await this.moveBack(name);
      await context.wait(5);
    }
    context.step('kubectl delete -k .');
    await this.#run('kubectl delete -k .');
  }

  get #folder(): string {
    return path.join(this.#home, 'my-cluster');
  }

  /** The page's folder of configuration is beside a checkout, and kube-ipvs-proxy is a command. */
  async #makeHome(): Promise<void> {
    await rm(this.#home, { recursive: true, force: true });
    await mkdir(path.join(this.#home, 'bin'), { recursive: true });
    await symlink(PROJECT, path.join(this.#home, OURS));
    const program = path.join(PROJECT, 'build/kube-ipvs-proxy.mjs');
    await writeFile(path.join(this.#home, 'bin', OURS), `#!/bin/sh\nexec ${process.execPath} ${program} "$@"\n`, {
      mode: 0o755,
    });
  }

  /** The file of step 4. The nodes have the image under its own name. */
  #kustomization(): string {
    const text = this.#page.block(STEP_4, 'kind: Kustomization');
    const [, image] = /^ *newName: (\S+)$/m.exec(text) ?? [];
    return replaced(replaced(text, image ?? 'newName', OURS), 'overlays/privileged', `overlays/${this.#overlay}`);
  }

  async #writeKustomization(change: (text: string) => string): Promise<void> {
    const file = path.join(this.#folder, 'kustomization.yaml');
    const before = await readFile(file, 'utf8');
    const after = change(before);
    if (after === before) throw new Error(`${file} does not change: ${before}`);
    await writeFile(file, after);
  }

  /** Runs commands where a user has kubectl. */
  async #run(script: string, folder = this.#folder): Promise<string> {
    const folders = [this.#context.folder.root, path.join(this.#home, 'bin'), process.env['PATH'] ?? ''];
    const argv = ['bash', '-euo', 'pipefail', '-c', `cd '${folder}'\n${script}`];
    const env = { ...process.env, PATH: folders.join(':') };
    return (await runCommand(argv, { env, timeoutMs: ROLLED_OUT_SECONDS * 1000 })).stdout;
  }

  async #podOn(name: string, node: string): Promise<string> {
    const pods = await this.#context.pods(`k8s-app=${name}`, NAMESPACE);
    return pods.find((pod) => pod.node === node && pod.deletedAt === undefined && pod.ready)?.name ?? '';
  }

  async #awaitProxy(name: string, node: string): Promise<void> {
    const context = this.#context;
    const seconds = await context.until(`${name} is ready on ${node}`, ROLLED_OUT_SECONDS, async () => {
      return (await this.#podOn(name, node)) !== '';
    });
    const ready = await context.until(`${name} on ${node} is healthy`, SERVES_SECONDS, async () => {
      const { stdout } = await context.nodeResult(
        node,
        'curl -s -o /dev/null -w "%{http_code}" 127.0.0.1:10256/healthz',
      );
      return stdout === '200';
    });
    context.say(`${name} is ready on ${node} after ${seconds} s, healthy after ${ready} s more`);
  }
}

const COMPONENTS = /^components:\n(?: .*\n)*/m;

/** The text with one thing replaced that it must have. */
function replaced(text: string, what: string, by: string): string {
  if (!text.includes(what)) throw new Error(`docs/migrate.md: no ${what} in: ${text}`);
  return text.replaceAll(what, by);
}

function ofNode(command: string, node: string): string {
  return replaced(command, ' NODE ', ` ${node} `);
}
