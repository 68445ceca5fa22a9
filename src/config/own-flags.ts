import { type Row, SWITCH } from './flag.ts';
import { duration, int32, string, strings } from './value-kind.ts';

/** Flags that kube-proxy does not have; no file holds them. */
export const OWN_FLAGS: readonly Row[] = [
  [
    'manifests',
    '',
    'run without an API server: Services, EndpointSlices and Nodes come from the YAML and JSON files of this directory, which is watched',
    { kind: string, hint: 'dir' },
  ],
  [
    'ipvs-drain-timeout',
    '0s',
    'how long a removed TCP real server may keep its connections at weight 0; 0: until the last one ends',
    { kind: duration },
  ],
  [
    'ipvs-unbound-cidrs',
    '',
    'service addresses in these CIDRs get their virtual servers, but are not bound to kube-ipvs0 and not closed to the rest',
    { kind: strings, hint: 'cidrs' },
  ],
  [
    'ipvs-local-route-cidrs',
    '',
    'light mode: one local route for each of these CIDRs (your service CIDRs) in place of an address on kube-ipvs0 for each service in them',
    { kind: strings, hint: 'cidrs' },
  ],
  [
    'ipvs-run-estimation',
    '',
    'set net.ipv4.vs.run_estimation; false spares the kernel a walk over all servers each two seconds, and its traffic counters stand still; not given: leave it as it is',
    { kind: string, hint: 'true|false' },
  ],
  [
    'service-metrics-limit',
    '1000',
    'metrics of single Services (kubeipvs_service_*) are served while there are at most so many Services; 0: never',
    { kind: int32, hint: 'services' },
  ],
  [
    'service-metrics-real-servers',
    'false',
    'within that limit metrics of single real servers too (kubeipvs_real_server_*): seven series for each endpoint of each Service port on each node, new ones with each new Pod; none above ten real servers for each Service of the limit',
    SWITCH,
  ],
  [
    'masquerade-port-range',
    '',
    'source ports that masquerading may take, to keep clear of NodePorts',
    { kind: string, hint: 'from-to' },
  ],
];
