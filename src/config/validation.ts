import { type Cidr, cidrFamily, parseCidr } from '../net/cidr.ts';
import { parseIp } from '../net/ip.ts';
import { parseBindAddress } from './bind-address.ts';
import type { FieldPath, FieldValues } from './config-fields.ts';
import { formatDuration } from './duration.ts';
import { gateProblems } from './feature-gates.ts';
import { type Problem, show } from './problem.ts';

/** linux/if.h: IFNAMSIZ is 16, with the NUL. */
const INTERFACE_NAME_MAX = 15;
/** linux/ip_vs.h: IP_VS_SCHEDNAME_MAXLEN is 16, with the NUL. */
const SCHEDULER_NAME_MAX = 15;

const MODES = ['iptables', 'ipvs', 'nftables'];
const DETECT_LOCAL_MODES = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'];

type Check = (values: FieldValues) => Problem[];

function problem(path: FieldPath, text: string): Problem[] {
  return [{ path, text }];
}

/** Paths whose values have one type: what a range check may name. */
type NumberPath = { [P in FieldPath]: FieldValues[P] extends number ? P : never }[FieldPath];
type StringPath = { [P in FieldPath]: FieldValues[P] extends string ? P : never }[FieldPath];

function range(path: NumberPath, min: number, max = Infinity): Check {
  const bounds = max === Infinity ? `${min} or more` : `${min} to ${max}`;
  return (values) =>
    values[path] >= min && values[path] <= max ? [] : problem(path, `${values[path]} is out of range: want ${bounds}`);
}

function notNegative(path: NumberPath): Check {
  return (values) =>
    values[path] >= 0 ? [] : problem(path, `${formatDuration(values[path])} is negative: want 0s or more`);
}

function positive(path: NumberPath): Check {
  return (values) => (values[path] > 0 ? [] : problem(path, `${formatDuration(values[path])} is not above zero`));
}

function oneOf(path: StringPath, choices: readonly string[]): Check {
  return (values) =>
    values[path] === '' || choices.includes(values[path])
      ? []
      : problem(path, `${show(values[path])} is none of ${choices.join(', ')}`);
}

function bindAddress(path: 'healthzBindAddress' | 'metricsBindAddress', example: string): Check {
  return (values) =>
    values[path] === '' || parseBindAddress(values[path]) !== undefined
      ? []
      : problem(
          path,
          `${show(values[path])} is no IP:port: want an address and a port from 1 to 65535, such as ${show(example)}`,
        );
}

function interfaceName(path: StringPath, mode: string, maxLength: number): Check {
  return (values) => {
    const name = values[path];
    if (name === '')
      return values.detectLocalMode === mode ? problem(path, `is empty: detectLocalMode ${mode} needs it`) : [];
    if (name.length > maxLength) return problem(path, `${show(name)} is longer than ${maxLength} characters`);
    return /^[^\s/!+]+$/.test(name) ? [] : problem(path, `${show(name)} is no interface name`);
  };
}

function cidrs(path: 'nodePortAddresses' | 'ipvs.excludeCIDRs', values: FieldValues): Problem[] {
  return values[path].flatMap((text, i) =>
    parseCidr(text) === undefined
      ? [{ path: `${path}[${i}]`, text: `${show(text)} is no CIDR: want one such as "10.0.0.0/8" or "fd00::/64"` }]
      : [],
  );
}

const clusterCidr: Check = ({ clusterCIDR }) => {
  if (clusterCIDR === '') return [];
  const parts = clusterCIDR.split(',');
  const bad = parts.filter((text) => parseCidr(text) === undefined);
  if (bad.length > 0) {
    return bad.flatMap((text) => problem('clusterCIDR', `${show(text)} is no CIDR: want one such as "10.244.0.0/16"`));
  }
  if (parts.length > 2) return problem('clusterCIDR', `holds ${parts.length} CIDRs: want one, or one of each family`);
  const families = new Set(
    parts
      .map(parseCidr)
      .filter((cidr): cidr is Cidr => cidr !== undefined)
      .map(cidrFamily),
  );
  return families.size === parts.length
    ? []
    : problem('clusterCIDR', `${show(clusterCIDR)} holds two CIDRs of one family: want one of each`);
};

const nodePortAddresses: Check = (values) => {
  const addresses = values.nodePortAddresses;
  if (!addresses.includes('primary')) return cidrs('nodePortAddresses', values);
  return addresses.length === 1
    ? []
    : problem('nodePortAddresses', '"primary" stands with other entries: it must be the only one');
};

const logging: Check = (values) => [
  ...oneOf('logging.format', ['text', 'json'])(values),
  ...(values['logging.format'] !== 'text' && values['logging.vmodule'].length > 0
    ? problem('logging.vmodule', 'works with logging.format text only')
    : []),
  ...values['logging.vmodule'].flatMap(({ filePattern }, i) =>
    filePattern === '' || /[,=]/.test(filePattern)
      ? [
          {
            path: `logging.vmodule[${i}].filePattern`,
            text: `${show(filePattern)} is no pattern: want a name without "," and "="`,
          },
        ]
      : [],
  ),
];

function schedulerProblem(name: string): string | undefined {
  if (name === '') return undefined;
  if (name.length > SCHEDULER_NAME_MAX)
    return `${show(name)} is longer than the ${SCHEDULER_NAME_MAX} characters that IPVS keeps`;
  return /^[\w-]+$/.test(name)
    ? undefined
    : `${show(name)} is no scheduler name: want letters, digits, "_" and "-", such as rr, lc or mh`;
}

/** Only checked where the mode is ipvs, as in kube-proxy. */
const ipvs: Check = (values) => {
  if (values.mode !== 'ipvs') return [];
  const scheduler = schedulerProblem(values['ipvs.scheduler']);
  const minimum = values['ipvs.minSyncPeriod'];
  const period = values['ipvs.syncPeriod'];
  return [
    ...positive('ipvs.syncPeriod')(values),
    ...notNegative('ipvs.minSyncPeriod')(values),
    ...(period > 0 && minimum > period
      ? problem('ipvs.minSyncPeriod', `${formatDuration(minimum)} is above syncPeriod (${formatDuration(period)})`)
      : []),
    ...(scheduler === undefined ? [] : problem('ipvs.scheduler', scheduler)),
    ...cidrs('ipvs.excludeCIDRs', values),
    ...notNegative('ipvs.tcpTimeout')(values),
    ...notNegative('ipvs.tcpFinTimeout')(values),
    ...notNegative('ipvs.udpTimeout')(values),
  ];
};

const CHECKS: readonly Check[] = [
  (values) => gateProblems(values.featureGates).map((text) => ({ path: 'featureGates', text })),
  range('clientConnection.burst', 0),
  logging,
  notNegative('logging.flushFrequency'),
  ({ hostnameOverride }) =>
    hostnameOverride !== '' && hostnameOverride.trim() === '' ? problem('hostnameOverride', 'is only white space') : [],
  (values) =>
    parseIp(values.bindAddress) === undefined
      ? problem('bindAddress', `${show(values.bindAddress)} is no IP address`)
      : [],
  bindAddress('healthzBindAddress', '0.0.0.0:10256'),
  bindAddress('metricsBindAddress', '127.0.0.1:10249'),
  ({ showHiddenMetricsForVersion: version }) =>
    version === '' || /^\d+\.\d+$/.test(version)
      ? []
      : problem('showHiddenMetricsForVersion', `${show(version)} is no version: want <major>.<minor>`),
  oneOf('mode', MODES),
  clusterCidr,
  oneOf('detectLocalMode', DETECT_LOCAL_MODES),
  interfaceName('detectLocal.bridgeInterface', 'BridgeInterface', INTERFACE_NAME_MAX),
  // iptables writes the prefix with a "+" behind it.
  interfaceName('detectLocal.interfaceNamePrefix', 'InterfaceNamePrefix', INTERFACE_NAME_MAX - 1),
  nodePortAddresses,
  range('oomScoreAdj', -1000, 1000),
  range('conntrack.maxPerCore', 0),
  range('conntrack.min', 0),
  notNegative('conntrack.tcpEstablishedTimeout'),
  notNegative('conntrack.tcpCloseWaitTimeout'),
  notNegative('conntrack.udpTimeout'),
  notNegative('conntrack.udpStreamTimeout'),
  range('iptables.masqueradeBit', 0, 31),
  ipvs,
  positive('configSyncPeriod'),
];

/** Everything that is wrong with the values, in the order of the fields. */
export function validate(values: FieldValues): Problem[] {
  return CHECKS.flatMap((check) => check(values));
}

/** Why this program cannot do what the mode asks for; undefined for ipvs. */
export function modeRefusal(mode: string): string | undefined {
  if (mode === 'ipvs') return undefined;
  const named = mode === '' ? 'no mode (which means iptables)' : `mode ${show(mode)}`;
  const kept = mode === '' ? 'iptables' : mode;
  return `${named}: kube-ipvs-proxy does ipvs only; set --proxy-mode=ipvs (or mode: ipvs), or keep kube-proxy for ${kept}`;
}
