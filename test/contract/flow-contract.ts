import { describe, expect, test } from '@jest/globals';
import { type Cidr, cidrOf } from '../../src/base/cidr.ts';
import type { Flow } from '../../src/kernel/kernel.ts';
import type { IpFamily } from '../../src/base/ip.ts';
import type { ContractBed } from './contract-bed.ts';
import { address, endpoint, port } from './objects.ts';

export function flowContract(family: IpFamily, bed: () => ContractBed): void {
  const flow = (n: number, protocol: 'UDP' | 'TCP'): Flow => ({
    family,
    protocol,
    source: endpoint(family, 200 + n),
    sourcePort: port(40_000 + n),
    destination: address(family, 10),
    destinationPort: port(53),
    replySource: endpoint(family, n),
    replySourcePort: port(5353),
  });

  describe('flows', () => {
    test('UDP flows are listed and deleted one by one; TCP flows are left alone', async () => {
      const { kernel } = bed();
      for (const each of [flow(1, 'UDP'), flow(2, 'UDP'), flow(3, 'TCP')]) await bed().addFlow(each);
      const listed = await kernel.getUdpFlows(family);
      expect(new Set(listed)).toEqual(new Set([flow(1, 'UDP'), flow(2, 'UDP')]));
      expect(await kernel.getUdpFlows(family === 4 ? 6 : 4)).toEqual([]);
      expect(await kernel.deleteFlows([flow(1, 'UDP'), flow(9, 'UDP')])).toBe(1);
      expect(await kernel.getUdpFlows(family)).toEqual([flow(2, 'UDP')]);
      expect(await bed().flows(family, 53)).toBe(2);
      expect(await kernel.deleteFlows([])).toBe(0);
      const sources = (...left: readonly number[]): unknown => new Set(left.map((n) => endpoint(family, 200 + n)));
      const host = (n: number): Cidr => cidrOf(endpoint(family, 200 + n), family === 4 ? 32 : 128);
      const all = cidrOf(endpoint(family, 0), family === 4 ? 8 : 16);
      expect(await kernel.getFlowSources(family, [all])).toEqual(sources(2, 3));
      expect(await kernel.getFlowSources(family, [host(3), host(4)])).toEqual(sources(3));
      const many = Array.from({ length: 20 }, (_, n) => host(n));
      expect(await kernel.getFlowSources(family, many)).toEqual(sources(2, 3));
      expect(await kernel.getFlowSources(family, [])).toEqual(new Set());
    });
  });
}
