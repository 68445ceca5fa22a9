import type { TrialContext } from '../context.ts';
import { MigratePage } from '../migration/migrate-page.ts';
import { Migration } from '../migration/migration.ts';
import type { Trial } from '../trial.ts';

/** Between two nodes. The page says a day. */
const PAUSE_SECONDS = 10;

export const migrateFromIpvs: Trial = {
  name: 'migrate-from-ipvs',
  what:
    'kube-proxy in ipvs mode replaced node by node as docs/migrate.md says; one node rolled back and moved again; ' +
    'at the end all nodes rolled back',
  proxies: ['kube-proxy-ipvs'],
  about: { proxy: 'ours', overlay: 'restricted' },
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const migration = new Migration(context, await MigratePage.read(), 'restricted');
    context.step('preparation');
    await migration.prepare('ipvs');
    for (const { name } of context.state.nodes) await moveAndVerify(context, migration, name, true);
    const [{ name: first } = { name: '' }] = context.state.nodes;
    await migration.moveBack(first);
    await context.wait(PAUSE_SECONDS);
    await moveAndVerify(context, migration, first, true);
    await migration.finish();
    await context.wait(PAUSE_SECONDS);
    await migration.allBack();
    await context.wait(PAUSE_SECONDS);
  },
};

export const migrateFromIptables: Trial = {
  name: 'migrate-from-iptables',
  what: 'kube-proxy in iptables mode replaced node by node as docs/migrate.md says',
  proxies: ['kube-proxy-iptables'],
  about: { proxy: 'ours', overlay: 'privileged' },
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const migration = new Migration(context, await MigratePage.read(), 'privileged');
    context.step('preparation');
    await migration.prepare('iptables');
    for (const { name } of context.state.nodes) {
      await moveAndVerify(context, migration, name, false);
      const left = await context.node(name, `iptables-save | grep -cE 'KUBE-(SVC|SEP|EXT)-|KUBE-NODEPORTS' || true`);
      context.check(`${name}: no rules of iptables mode are left (${left.trim()})`, left.trim() === '0');
    }
    await migration.finish();
    await context.wait(PAUSE_SECONDS);
  },
};

async function moveAndVerify(
  context: TrialContext,
  migration: Migration,
  node: string,
  sameServers: boolean,
): Promise<void> {
  await migration.move(node);
  await migration.verify(node, { sameServers });
  await context.wait(PAUSE_SECONDS);
}
