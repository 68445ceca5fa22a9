import { afterEach, beforeEach, describe } from '@jest/globals';
import { IP_FAMILIES } from '../../src/base/ip.ts';
import { addressContract } from './address-contract.ts';
import type { ContractBed, MakeBed } from './contract-bed.ts';
import { flowContract } from './flow-contract.ts';
import { ipvsContract } from './ipvs-contract.ts';
import { planeContract } from './plane-contract.ts';
import { routeContract } from './route-contract.ts';
import { ruleContract } from './rule-contract.ts';
import { setContract } from './set-contract.ts';
import { settingContract } from './setting-contract.ts';

/** What the Kernel of ipvs mode must do, with the real one and the fake: what every mode must, and more. */
export function kernelContract(makeBed: MakeBed): void {
  planeContract('ipvs', makeBed);

  describe('the kernel of ipvs mode', () => {
    let bed: ContractBed | undefined;
    beforeEach(async () => {
      bed = await makeBed();
      await bed.kernel.prepare();
    });
    afterEach(async () => {
      await bed?.[Symbol.asyncDispose]();
      bed = undefined;
    });
    const current = (): ContractBed => {
      if (bed === undefined) throw new Error('there is no bed outside a test');
      return bed;
    };
    for (const family of IP_FAMILIES) {
      describe(`IPv${family}`, () => {
        ipvsContract(family, current);
        setContract(family, current);
        addressContract(family, current);
        routeContract(family, current);
        ruleContract(family, current);
        flowContract(family, current);
      });
    }
    settingContract(current);
  });
}
