import type { JudgedMode } from '../compare.ts';
import { IPVS_DIFFERENCES } from './differences.ts';
import { playOurs } from './ours.ts';
import { type IpvsState, factsOf } from './state.ts';

export const ipvsMode: JudgedMode<IpvsState> = { playOurs, factsOf, differences: IPVS_DIFFERENCES };
