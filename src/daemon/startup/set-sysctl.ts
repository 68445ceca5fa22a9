import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../observe/log/log.ts';

/** Writes a sysctl (a key such as net/ipv4/ip_forward) if its value differs, and logs the change. */
export async function setSysctl(kernel: Kernel, key: string, value: string, log: Log): Promise<void> {
  const { changed, before } = await kernel.setSysctl(key, value);
  if (changed) log.info(`sysctl ${key.replaceAll('/', '.')} set`, { value, before });
}
