import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TrialContext } from '../context.ts';
import { MigratePage } from '../migration/migrate-page.ts';
import { Migration } from '../migration/migration.ts';
import type { Trial } from '../trial.ts';

const ROUNDS = 10;
/** A connection that fell silent was seen after 20 s. */
const WATCH_SECONDS = 25;

/** What the state of a node is read from. */
const STATE = [
  'ipvsadm -Sn | sort',
  'ipvsadm -Lnc',
  'conntrack -L 2>/dev/null',
  'iptables-save',
  'ipset save',
  'ip -o addr show dev kube-ipvs0',
  'sysctl -a 2>/dev/null | grep -E "^net.ipv4.vs|^net.netfilter.nf_conntrack"',
  'date +%s.%N',
];

export const switchRepeatedly: Trial = {
  name: 'switch-repeatedly',
  what: `each node switched from kube-proxy in ipvs mode to kube-ipvs-proxy and back, ${ROUNDS} times`,
  proxies: ['kube-proxy-ipvs'],
  about: { proxy: 'ours', overlay: 'restricted' },
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const migration = new Migration(context, await MigratePage.read(), 'restricted');
    const evidence = new Evidence(context);
    context.step('preparation');
    await migration.prepare('ipvs');
    for (let round = 1; round <= ROUNDS; round++) {
      for (const { name } of context.state.nodes) {
        await evidence.save(`${round}-before`, name);
        await migration.move(name);
        await evidence.save(`${round}-ours`, name);
        await migration.moveBack(name);
        await evidence.save(`${round}-back`, name);
      }
      context.step(`round ${round}: all nodes are back`);
      await evidence.watch(WATCH_SECONDS);
    }
  },
};

/** Keeps the state of the nodes, so that the cause of a failure can be read afterwards. */
class Evidence {
  readonly #context: TrialContext;
  readonly #folder: string;
  #seen = 0;

  constructor(context: TrialContext) {
    this.#context = context;
    this.#folder = path.join(context.folder.logs, `switches-${Date.now()}`);
  }

  async save(name: string, node: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true });
    const script = STATE.map((command) => `echo '=== ${command.replaceAll("'", '')}'; ${command}`).join('\n');
    const { stdout } = await this.#context.nodeResult(node, script);
    await writeFile(path.join(this.#folder, `${name}-${node}`), stdout);
    await this.#look();
  }

  async watch(seconds: number): Promise<void> {
    for (let passed = 0; passed < seconds; passed++) {
      await this.#context.wait(1);
      await this.#look();
    }
  }

  /** Of each connection that failed since the last look: what the nodes know of its client port. */
  async #look(): Promise<void> {
    const failures = this.#context.traffic.failures();
    for (const failure of failures.slice(this.#seen)) {
      this.#context.say(`failed: ${JSON.stringify(failure)}`);
      for (const { name } of this.#context.state.nodes) {
        const port = failure.localPort;
        const script = `ipvsadm -Lnc | grep ':${port} '; conntrack -L 2>/dev/null | grep -E 'port=${port}( |$)'; true`;
        this.#context.say(`${name}:\n${(await this.#context.nodeResult(name, script)).stdout}`);
      }
    }
    this.#seen = failures.length;
  }
}
