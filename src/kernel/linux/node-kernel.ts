import { type SocketConnection, openConnection } from '../../netlink/transport/connection.ts';
import { NETLINK_NETFILTER, NETLINK_ROUTE } from '../../netlink/netlink-protocol.ts';
import type { Trace } from '../../netlink/trace/trace.ts';
import type { IpFamily } from '../../base/ip.ts';
import type { Log } from '../../observe/log/log.ts';
import { type CommandRunner, createCommandRunner } from '../command-runner.ts';
import { KernelError } from '../kernel-error.ts';
import type { EngineLimits } from '../../userspace/engine-limits.ts';
import type { ModeObserver } from '../mode-observer.ts';
import type { KernelCounters } from '../kernel.ts';
import { ConntrackHandle } from './conntrack-handle.ts';
import { DEVICE, DeviceHandle } from './device-handle.ts';
import { withKernelError } from './netlink-failure.ts';
import type { EngineReport } from '../../userspace/engine-report.ts';
import { NodeAddressWatch } from './node-address-watch.ts';
import { Sysctl, type SysctlFiles, commandSysctlFiles, processSysctlFiles } from './sysctl.ts';

export interface NodeKernelOptions {
  readonly log: Log;
  /** Path of a network namespace to work in ("/run/netns/blue"), for tests; default: that of the process. */
  readonly netns?: string;
  readonly onProgram?: (program: string) => void;
  /** Called when iptables-restore (ip6tables-restore) failed. */
  readonly onRestoreFailure?: (family: IpFamily) => void;
  readonly modeObserver?: ModeObserver;
  /** Those of the engine, in userspace mode. */
  readonly engineLimits?: EngineLimits;
  /** Called when the engine is opened, with what reads it. */
  readonly onEngine?: (read: () => Promise<EngineReport | undefined>) => void;
}

/** Verbosity from which every netlink message is logged. */
const TRACE_LEVEL = 9;

/** What every mode needs of a node: its sockets, addresses, connection tracking and sysctls. Opens sockets on first use. */
export class NodeKernel {
  readonly log: Log;
  readonly netns: string | undefined;
  readonly trace: Trace;
  readonly runner: CommandRunner;
  readonly files: SysctlFiles;
  readonly #sysctl: Sysctl;
  readonly #connections: SocketConnection[] = [];
  /** Active watches. Each has a callback for the reason why events were missed or the kernel's state is gone. */
  readonly #watches = new Map<NodeAddressWatch, (reason: string) => void>();
  readonly #conntrack = once(() => new ConntrackHandle(this.open(NETLINK_NETFILTER), this.countWrites));
  readonly device = once(() => new DeviceHandle(this.open(NETLINK_ROUTE), this.countWrites));
  #writes = 0;
  #processes = 0;
  #closed = false;

  constructor({ log, netns, onProgram }: NodeKernelOptions) {
    this.log = log;
    this.netns = netns;
    const onStart = (program: string): void => {
      this.#processes++;
      onProgram?.(program);
    };
    this.runner = createCommandRunner({ netns, onStart });
    this.trace = { enabled: () => log.enabled(TRACE_LEVEL), line: (text) => log.debug(TRACE_LEVEL, text) };
    this.files = netns === undefined ? processSysctlFiles : commandSysctlFiles(this.runner);
    this.#sysctl = new Sysctl(this.files);
  }

  get counters(): Readonly<KernelCounters> {
    const sum = {
      netlinkMessages: 0,
      netlinkSends: 0,
      netlinkBytesSent: 0,
      netlinkBytesReceived: 0,
      netlinkSystemCalls: 0,
    };
    for (const { counters } of this.#connections) {
      sum.netlinkMessages += counters.messages;
      sum.netlinkSends += counters.sends;
      sum.netlinkBytesSent += counters.bytesSent;
      sum.netlinkBytesReceived += counters.bytesReceived;
      sum.netlinkSystemCalls += counters.systemCalls;
    }
    return { writes: this.#writes, ...sum, processesStarted: this.#processes };
  }

  readonly findRoutes = kernelMethod(this.device, 'findRoutes');
  readonly findUnforwarded = kernelMethod(this.device, 'findUnforwarded');
  readonly getNodeAddresses = kernelMethod(this.device, 'getNodeAddresses');
  readonly getUdpFlows = kernelMethod(this.#conntrack, 'getUdpFlows');
  readonly getFlowSources = kernelMethod(this.#conntrack, 'getFlowSources');
  readonly deleteFlows = kernelMethod(this.#conntrack, 'deleteFlows');

  readonly getSysctl = (key: string): Promise<string | undefined> => this.#sysctl.get(key);

  readonly setSysctl = async (
    key: string,
    value: string,
  ): Promise<{ readonly changed: boolean; readonly before: string }> => {
    const result = await this.#sysctl.set(key, value);
    if (result.changed) this.#writes++;
    return result;
  };

  /** Watches addresses. `onDeviceLost` is called with the reason if kube-ipvs0 is gone. Returns a function that ends it. */
  watchAddresses(onChange: () => void, onDeviceLost: (reason: string) => void): () => void {
    const findDevice = async (): Promise<number | undefined> => this.device().index();
    const { netns, log, trace } = this;
    const watch = new NodeAddressWatch({ netns, device: DEVICE, findDevice, log, trace, onChange, onDeviceLost });
    this.#watches.set(watch, onDeviceLost);
    watch.start();
    return () => {
      this.#watches.delete(watch);
      watch.stop();
    };
  }

  /** Tells all watches that state of the kernel is gone. */
  stateLost(reason: string): void {
    for (const onStateLost of this.#watches.values()) onStateLost(reason);
  }

  open(protocol: number, sendBuffer?: number): SocketConnection {
    if (this.#closed)
      throw new KernelError('open', 'CLOSED', 'cannot open a netlink socket: this Kernel has been closed');
    const { netns, trace } = this;
    const connection = openConnection({
      protocol,
      trace,
      ...(netns === undefined ? {} : { netns }),
      ...(sendBuffer === undefined ? {} : { sendBuffer }),
    });
    this.#connections.push(connection);
    return connection;
  }

  discard(connection: SocketConnection): void {
    this.#connections.splice(this.#connections.indexOf(connection), 1);
    connection.close();
  }

  readonly countWrites = (messages: number): void => {
    this.#writes += messages;
  };

  close(): void {
    this.#closed = true;
    for (const watch of this.#watches.keys()) watch.stop();
    this.#watches.clear();
    for (const connection of this.#connections) connection.close();
  }
}

/** Returns a function that makes the value when it is first called. */
export function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

type Methods<K extends string> = { readonly [Name in K]: (...args: never[]) => Promise<unknown> };

/** Returns a method of a handle whose netlink errors become a KernelError. */
export function kernelMethod<K extends string, H extends Methods<K>>(handle: () => H, name: K): H[K] {
  const method = async (...args: never[]): Promise<unknown> =>
    await withKernelError(name, async () => handle()[name](...args));
  return method as H[K];
}
