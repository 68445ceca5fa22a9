import type { IpvsTimeouts, Kernel, KernelReader } from '../../kernel/kernel.ts';

/** Settings of the node that service traffic depends on. */
export interface NodeSettings {
  readonly sysctls: readonly (readonly [key: string, value: string])[];
  /** In seconds; 0 leaves a timeout unchanged. */
  readonly timeouts: IpvsTimeouts;
}

export const NO_SETTINGS: NodeSettings = { sysctls: [], timeouts: { tcp: 0, tcpFin: 0, udp: 0 } };

/** A setting that is not as wanted. */
export interface SettingDifference {
  readonly command: string;
  /** The old and the new value, for the log. */
  readonly text: string;
  readonly restore: (kernel: Kernel) => Promise<unknown>;
}

export async function differingSettings(
  kernel: Pick<KernelReader, 'getSysctl' | 'getIpvsTimeouts'>,
  { sysctls, timeouts }: NodeSettings,
): Promise<SettingDifference[]> {
  const differences: SettingDifference[] = [];
  for (const [key, value] of sysctls) {
    const found = await kernel.getSysctl(key);
    if (found === value) continue;
    const name = key.replaceAll('/', '.');
    differences.push({
      command: `sysctl -w ${name}=${value}`,
      text: `sysctl ${name} was ${found}, set to ${value} again`,
      restore: (writable) => writable.setSysctl(key, value),
    });
  }
  const wanted = (['tcp', 'tcpFin', 'udp'] as const).filter((of) => timeouts[of] > 0);
  if (wanted.length === 0) return differences;
  const found = await kernel.getIpvsTimeouts();
  if (wanted.every((of) => found[of] === timeouts[of])) return differences;
  const { tcp, tcpFin, udp } = timeouts;
  differences.push({
    command: `ipvsadm --set ${tcp} ${tcpFin} ${udp}`,
    text: `IPVS timeouts were tcp ${found.tcp} s, tcpfin ${found.tcpFin} s, udp ${found.udp} s, set as configured again`,
    restore: (writable) => writable.setIpvsTimeouts(timeouts),
  });
  return differences;
}
