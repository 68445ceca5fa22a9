import { describe, expect, test } from '@jest/globals';
import { type IpFamily, formatHostPort } from '../../src/base/ip.ts';
import type { Op } from '../../src/state/op.ts';
import { FORWARDING, type RealServer, TUNNEL_CHECKSUM, TUNNEL_TYPE } from '../../src/state/real-server.ts';
import { Transaction } from '../../src/state/transaction.ts';
import { VS_PERSISTENT, VS_SCHED_FALLBACK, VS_SCHED_PORT, virtualServerKey } from '../../src/state/virtual-server.ts';
import type { ContractBed } from './contract-bed.ts';
import { address, endpoint, realServer, virtualServer } from './objects.ts';

export function ipvsContract(family: IpFamily, bed: () => ContractBed): void {
  const vs = virtualServer(address(family, 10), 80);
  const rs1 = realServer(endpoint(family, 1), 8080);
  const rs2 = realServer(endpoint(family, 2), 8080);
  const vsText = formatHostPort(vs.address, vs.port);
  const rs1Text = formatHostPort(rs1.address, rs1.port);
  const rs2Text = formatHostPort(rs2.address, rs2.port);
  const additions: readonly Op[] = [
    { kind: 'add-virtual-server', virtualServer: vs },
    { kind: 'add-real-server', id: vs, realServer: rs1 },
    { kind: 'add-real-server', id: vs, realServer: rs2 },
  ];
  const added = [
    `-A -t ${vsText} -s rr`,
    `-a -t ${vsText} -r ${rs1Text} -m -w 1`,
    `-a -t ${vsText} -r ${rs2Text} -m -w 1`,
  ];
  const apply = async (...ops: readonly Op[]) => bed().kernel.apply(new Transaction(ops));
  const clean = { failures: [] };

  describe('virtual and real servers', () => {
    test('are added and read back', async () => {
      expect(await apply(...additions)).toEqual({ failures: [] });
      expect(await bed().ipvs()).toEqual(added);
      const { kernel } = bed();
      expect(await kernel.getVirtualServers()).toEqual([vs]);
      expect(await kernel.findVirtualServers([vs])).toEqual(new Map([[virtualServerKey(vs), vs]]));
      const counters = { activeConnections: 0, inactiveConnections: 0, persistentConnections: 0 };
      const tunnel = { tunnelType: 0, tunnelPort: 0, tunnelFlags: 0 };
      const observed = { forwarding: 0, ...tunnel, upperThreshold: 0, lowerThreshold: 0, ...counters };
      const servers = (await kernel.getRealServers([vs])).get(virtualServerKey(vs)) ?? [];
      expect(new Set(servers)).toEqual(
        new Set([
          { ...rs1, ...observed },
          { ...rs2, ...observed },
        ]),
      );
    });

    test('are confirmed if they are exactly the expected ones', async () => {
      await apply(...additions);
      const { kernel } = bed();
      const confirmed = async (...realServers: readonly RealServer[]): Promise<boolean> => {
        const lists = (await kernel.getVirtualServers()).map((found) => ({ virtualServer: found, realServers }));
        return (await kernel.confirmRealServers(lists)).has(virtualServerKey(vs));
      };
      // A kernel need not confirm those of IPv6.
      const can = family === 4 || (await confirmed(rs1, rs2));
      expect(await confirmed(rs1, rs2)).toBe(can);
      const other = realServer(endpoint(family, 3), 8080);
      for (const wrong of [
        [],
        [rs1],
        [rs1, other],
        [rs1, rs2, other],
        [rs1, realServer(rs2.address, 8081)],
        [rs1, { ...rs2, weight: 0 }],
        [rs1, { ...rs2, forwarding: FORWARDING.route }],
        [rs1, { ...rs2, upperThreshold: 1 }],
        [rs1, { ...rs2, upperThreshold: 2, lowerThreshold: 1 }],
      ]) {
        expect(await confirmed(...wrong)).toBe(false);
      }
      // The list of the older interface lacks real servers of the other family.
      const foreign = { ...realServer(endpoint(family === 4 ? 6 : 4, 3), 8080), forwarding: FORWARDING.tunnel };
      expect(await apply({ kind: 'add-real-server', id: vs, realServer: foreign })).toMatchObject(clean);
      expect(await confirmed(rs1, rs2)).toBe(false);
      await apply({ kind: 'delete-real-server', id: vs, realServer: foreign });
      const limited = { ...rs2, weight: 7, forwarding: FORWARDING.route, upperThreshold: 20, lowerThreshold: 10 };
      await apply({ kind: 'edit-real-server', id: vs, realServer: limited });
      expect([await confirmed(rs1, limited), await confirmed(rs1, rs2)]).toEqual([can, false]);
      await apply({ kind: 'delete-real-server', id: vs, realServer: rs1 });
      expect([await confirmed(limited), await confirmed(rs1, limited)]).toEqual([can, false]);
      // One that is added after the listing is noticed.
      const listed = await kernel.getVirtualServers();
      await apply({ kind: 'add-real-server', id: vs, realServer: rs1 });
      const lists = listed.map((found) => ({ virtualServer: found, realServers: [rs1] }));
      expect(await kernel.confirmRealServers(lists)).toEqual(new Set());
    });

    test('of each protocol are printed by ipvsadm, and gone with their virtual server', async () => {
      const udp = virtualServer(vs.address, 80, 'UDP', { scheduler: 'lc' });
      const sctp = virtualServer(vs.address, 80, 'SCTP');
      const others: readonly Op[] = [
        { kind: 'add-virtual-server', virtualServer: udp },
        { kind: 'add-virtual-server', virtualServer: sctp },
        { kind: 'add-real-server', id: udp, realServer: rs1 },
      ];
      expect(await apply(...additions, ...others)).toMatchObject(clean);
      const printed = [
        `-A -u ${vsText} -s lc`,
        `-A --sctp-service ${vsText} -s rr`,
        `-a -u ${vsText} -r ${rs1Text} -m -w 1`,
      ];
      expect(await bed().ipvs()).toEqual([...added, ...printed].sort());
      await apply(...[vs, udp].map((id): Op => ({ kind: 'delete-virtual-server', id })));
      expect(await bed().ipvs()).toEqual(printed.slice(1, 2));
    });

    test('keep flags, timeout and weight, and take edits of them', async () => {
      const sticky = virtualServer(vs.address, 80, 'TCP', {
        scheduler: 'mh',
        flags: VS_PERSISTENT | VS_SCHED_FALLBACK | VS_SCHED_PORT,
        timeout: 10_800,
      });
      expect(await apply({ kind: 'add-virtual-server', virtualServer: sticky })).toMatchObject(clean);
      expect(await bed().kernel.getVirtualServers()).toEqual([sticky]);
      expect(await bed().ipvs()).toEqual([`-A -t ${vsText} -s mh -p 10800 -b mh-fallback,mh-port`]);
      const edited = { ...vs, scheduler: 'wrr' };
      const drained = { ...rs1, weight: 0 };
      expect(
        await apply(
          { kind: 'edit-virtual-server', virtualServer: edited },
          { kind: 'add-real-server', id: vs, realServer: rs1 },
          { kind: 'edit-real-server', id: vs, realServer: drained },
        ),
      ).toMatchObject(clean);
      expect(await bed().kernel.getVirtualServers()).toEqual([edited]);
      expect(await bed().ipvs()).toEqual([`-A -t ${vsText} -s wrr`, `-a -t ${vsText} -r ${rs1Text} -m -w 0`]);
    });

    test('are forwarded without NAT, and change their forwarding method in place', async () => {
      const tunnel = { ...rs1, forwarding: FORWARDING.tunnel };
      const route = { ...rs2, forwarding: FORWARDING.route };
      await apply(...additions);
      expect(
        await apply(
          { kind: 'edit-real-server', id: vs, realServer: tunnel },
          { kind: 'add-real-server', id: vs, realServer: route },
        ),
      ).toMatchObject(clean);
      expect(await bed().ipvs()).toEqual([
        `-A -t ${vsText} -s rr`,
        `-a -t ${vsText} -r ${rs1Text} -i -w 1`,
        `-a -t ${vsText} -r ${rs2Text} -g -w 1`,
      ]);
      expect((await bed().kernel.getRealServers([vs])).get(virtualServerKey(vs))).toMatchObject(
        expect.arrayContaining([expect.objectContaining(tunnel), expect.objectContaining(route)]),
      );
      expect(await apply({ kind: 'edit-real-server', id: vs, realServer: rs1 })).toMatchObject(clean);
      expect(await bed().ipvs()).toContain(`-a -t ${vsText} -r ${rs1Text} -m -w 1`);
    });

    test('are reached through tunnels of other types', async () => {
      const gue = { ...rs1, forwarding: FORWARDING.tunnel, tunnelType: TUNNEL_TYPE.gue, tunnelPort: 6080 };
      const checked = { ...gue, tunnelFlags: TUNNEL_CHECKSUM };
      const gre = { ...rs2, forwarding: FORWARDING.tunnel, tunnelType: TUNNEL_TYPE.gre };
      await apply(...additions);
      const found = async () => (await bed().kernel.getRealServers([vs])).get(virtualServerKey(vs));
      for (const first of [gue, checked]) {
        expect(
          await apply(
            { kind: 'edit-real-server', id: vs, realServer: first },
            { kind: 'edit-real-server', id: vs, realServer: gre },
          ),
        ).toMatchObject(clean);
        expect(await found()).toMatchObject(
          expect.arrayContaining([expect.objectContaining(first), expect.objectContaining(gre)]),
        );
      }
      await apply({ kind: 'edit-real-server', id: vs, realServer: rs1 });
      expect(await found()).toMatchObject(
        expect.arrayContaining([expect.objectContaining({ ...rs1, tunnelType: 0, tunnelPort: 0, tunnelFlags: 0 })]),
      );
    });

    test('added again are edited, not refused', async () => {
      await apply(...additions);
      expect(await apply(...additions)).toMatchObject(clean);
      expect(await bed().ipvs()).toEqual(added);
      expect(
        await apply(
          { kind: 'add-virtual-server', virtualServer: { ...vs, scheduler: 'lc' } },
          { kind: 'add-real-server', id: vs, realServer: { ...rs1, weight: 7 } },
        ),
      ).toMatchObject(clean);
      expect(await bed().ipvs()).toEqual([
        `-A -t ${vsText} -s lc`,
        `-a -t ${vsText} -r ${rs1Text} -m -w 7`,
        `-a -t ${vsText} -r ${rs2Text} -m -w 1`,
      ]);
    });

    test('have counters that begin at zero, stay through edits and are gone with them', async () => {
      const { kernel } = bed();
      expect(await kernel.getVirtualServerStats()).toEqual(new Map());
      const udp = virtualServer(vs.address, 80, 'UDP');
      await apply(...additions, { kind: 'add-virtual-server', virtualServer: udp });
      const zero = { connections: 0, incomingPackets: 0, outgoingPackets: 0, incomingBytes: 0, outgoingBytes: 0 };
      const both = new Map([
        [virtualServerKey(vs), zero],
        [virtualServerKey(udp), zero],
      ]);
      expect(await kernel.getVirtualServerStats()).toEqual(both);
      const other = virtualServer(address(family, 11), 80);
      const onlyUdp = new Map([[virtualServerKey(udp), zero]]);
      expect(await kernel.getVirtualServerStats([other, udp])).toEqual(onlyUdp);
      expect(await kernel.getVirtualServerStats([])).toEqual(new Map());
      await apply({ kind: 'edit-virtual-server', virtualServer: { ...vs, scheduler: 'lc' } });
      expect(await kernel.getVirtualServerStats()).toEqual(both);
      await apply({ kind: 'delete-virtual-server', id: udp });
      expect([...(await kernel.getVirtualServerStats()).keys()]).toEqual([virtualServerKey(vs)]);
    });

    test('have counters for each real server too, which stay through edits and are gone with it', async () => {
      const { kernel } = bed();
      const empty = virtualServer(address(family, 11), 80);
      const other = virtualServer(address(family, 12), 80);
      await apply(...additions, { kind: 'add-virtual-server', virtualServer: empty });
      const read = async () => {
        const found = await kernel.getRealServerStats([vs, empty, other]);
        return Array.from(found, ([key, servers]) => [key, new Set(servers)] as const);
      };
      const zero = { connections: 0, incomingPackets: 0, outgoingPackets: 0, incomingBytes: 0, outgoingBytes: 0 };
      const quiet = { ...zero, activeConnections: 0, inactiveConnections: 0 };
      const of = ({ address: ip, port }: typeof rs1) => ({ address: ip, port, ...quiet });
      expect(await read()).toEqual([[virtualServerKey(vs), new Set([of(rs1), of(rs2)])]]);
      await apply({ kind: 'edit-real-server', id: vs, realServer: { ...rs1, weight: 0 } });
      await apply({ kind: 'delete-real-server', id: vs, realServer: rs2 });
      expect(await read()).toEqual([[virtualServerKey(vs), new Set([of(rs1)])]]);
      expect(await kernel.getRealServerStats([])).toEqual(new Map());
    });
  });
}
