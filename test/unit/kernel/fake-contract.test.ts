import { FakeBed } from '../../contract/fake-bed.ts';
import { kernelContract } from '../../contract/kernel-contract.ts';

kernelContract(async () => Promise.resolve(new FakeBed()));
