import { type JudgedMode, explain } from '../compare.ts';
import { IPVS_DIFFERENCES } from './differences.ts';
import { playOurs } from './ours.ts';
import { type IpvsState, factsOf } from './state.ts';

export const ipvsMode: JudgedMode<IpvsState> = {
  playOurs,
  factsOf,
  explain: (mismatch) => explain(IPVS_DIFFERENCES, mismatch),
};
