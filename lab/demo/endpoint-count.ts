import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { ask } from '../../src/command/ask.ts';
import type { TrafficReply } from '../../src/explain/replies.ts';
import { TEST_MODE } from '../../test/support/mode.ts';

/** 10.202.0.10:80 as /proc/net/ip_vs writes it. */
const IN_PROC = '0ACA000A:0050';
/** Its endpoints as nft writes them. */
const IN_NFT = /\b10\.202\.0\.10 \. tcp \. 80 \. \S+ : /g;

/** Returns the number of endpoints of the demo's ClusterIP that take new connections. @param querySocket of the daemon */
export async function endpointCount(querySocket: string): Promise<number> {
  return TEST_MODE === 'userspace' ? await inEngine(querySocket) : COUNT[TEST_MODE]();
}

const COUNT = { ipvs: inIpvs, nftables: inTables, iptables: inChains };

/** The kernel has none of them. */
async function inEngine(querySocket: string): Promise<number> {
  const { rows } = await ask<TrafficReply>(querySocket, '/v1/traffic?by=endpoint');
  return rows.filter(({ of, endpoint = '' }) => of === 'default/web' && endpoint.startsWith('10.201.')).length;
}

function inIpvs(): number {
  const lines = readFileSync('/proc/net/ip_vs', 'utf8').split('\n');
  const start = lines.findIndex((line) => line.includes(IN_PROC));
  let count = 0;
  for (const line of lines.slice(start + 1)) {
    if (!line.startsWith('  -> ')) break;
    if (!/\s0\s+\d+\s+\d+\s*$/.test(line)) count += 1;
  }
  return start < 0 ? -1 : count;
}

function inChains(): number {
  const saved = execFileSync('iptables-save', ['-t', 'nat'], { encoding: 'utf8' });
  const chain = /-d 10\.202\.0\.10\/32 -p tcp .* --dport 80 -j (KUBE-SVC-\w+)$/m.exec(saved)?.[1];
  if (chain === undefined) return 0;
  return saved.split('\n').filter((line) => line.startsWith(`-A ${chain} `) && line.includes(' -j KUBE-SEP-')).length;
}

function inTables(): number {
  const listed = execFileSync('nft', ['list', 'map', 'ip', 'kube-proxy', 'service-endpoints'], { encoding: 'utf8' });
  return listed.match(IN_NFT)?.length ?? 0;
}
