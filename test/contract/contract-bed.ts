import type { Flow, NodeAddress } from '../../src/kernel/kernel.ts';
import type { Cidr } from '../../src/base/cidr.ts';
import type { IpAddress, IpFamily } from '../../src/base/ip.ts';
import type { PlaneBed } from './plane-contract.ts';

/** A kernel of ipvs mode to test, and independent access to its state: the system's tools, or the tables of the fake kernel. */
export interface ContractBed extends PlaneBed {
  /** Lines of `ipvsadm -Sn`, sorted. */
  ipvs(): Promise<string[]>;
  /** `create NAME TYPE` and `add NAME ENTRY` lines in the manner of `ipset save`, sorted. */
  sets(): Promise<string[]>;
  /** address/prefix of what is bound to kube-ipvs0, sorted; undefined when there is no such interface. */
  addresses(): Promise<string[] | undefined>;
  /**
   * CIDRs of the local routes of the loopback interface that belong to none of its addresses, with their protocol
   * number, sorted.
   */
  routes(family: IpFamily): Promise<string[]>;
  /** `TABLE -A CHAIN RULE` lines of iptables-save, in order. */
  rules(family: IpFamily): Promise<string[]>;
  /** Number of flows of connection tracking with this original destination port. */
  flows(family: IpFamily, destinationPort: number): Promise<number>;

  // What others do to the same kernel.
  addNodeAddress(address: NodeAddress): Promise<void>;
  removeNodeAddress(address: NodeAddress): Promise<void>;
  /** Binds the address to kube-ipvs0 with other flags or lifetimes than bind-address. */
  bindAsOthers(address: IpAddress): Promise<void>;
  /** Deletes the address's route in table local; the address itself stays. */
  deleteRouteTo(address: IpAddress): Promise<void>;
  /** Replaces the route by one that drops packets. */
  blockRouteTo(address: IpAddress): Promise<void>;
  deleteDevice(): Promise<void>;
  addRoute(cidr: Cidr): Promise<void>;
  flushRules(family: IpFamily): Promise<void>;
  addFlow(flow: Flow): Promise<void>;
}

export type MakeBed = () => Promise<ContractBed>;
