import { formatCidr } from '../../base/cidr.ts';
import { PROTOCOL_NUMBER } from '../../base/protocol.ts';
import type { LocalDetector, RuleSettings } from './rule-settings.ts';

export function hexMark(mark: number): string {
  return `0x${(mark >>> 0).toString(16)}`;
}

/**
 * Returns the rules of iptables, as arguments, that masquerade what these arguments match. --to-ports requires a protocol with
 * ports, so each protocol has a rule.
 */
export function masqueradeRules(
  { masqueradePorts, randomFully }: Pick<RuleSettings, 'masqueradePorts' | 'randomFully'>,
  matches: readonly string[],
): readonly (readonly string[])[] {
  const random = randomFully ? ['--random-fully'] : [];
  const plain = [...matches, '-j', 'MASQUERADE', ...random];
  if (masqueradePorts === undefined) return [plain];
  const range = ['--to-ports', `${masqueradePorts.from}-${masqueradePorts.to}`];
  const limited = Object.keys(PROTOCOL_NUMBER).map((protocol) => [
    '-p',
    protocol.toLowerCase(),
    ...matches,
    '-j',
    'MASQUERADE',
    ...range,
    ...random,
  ]);
  return [...limited, plain];
}

/** Returns the arguments of iptables that match packets from elsewhere than the pods of this node. */
export function notFromPods(detector: LocalDetector): readonly string[] {
  switch (detector.kind) {
    case 'cidr':
      return ['!', '-s', formatCidr(detector.cidr)];
    case 'bridge':
      return ['!', '-i', detector.interfaceName];
    case 'interface-prefix':
      return ['!', '-i', `${detector.prefix}+`];
  }
}
