import { integer, list, message, repeatedText, text } from './message-table.ts';
import { OBJECT_META } from './object-meta.ts';

// k8s.io/api/core/v1/generated.proto

const PORT = message('ServicePort', {
  1: ['name', repeatedText],
  2: ['protocol', repeatedText],
  3: ['port', integer],
  5: ['nodePort', integer],
});

const AFFINITY = message('SessionAffinityConfig', {
  1: ['clientIP', message('ClientIPConfig', { 1: ['timeoutSeconds', integer] })],
});

const SPEC = message('ServiceSpec', {
  1: ['ports', list(PORT)],
  3: ['clusterIP', text],
  4: ['type', repeatedText],
  5: ['externalIPs', list(text)],
  7: ['sessionAffinity', repeatedText],
  9: ['loadBalancerSourceRanges', list(text)],
  11: ['externalTrafficPolicy', repeatedText],
  12: ['healthCheckNodePort', integer],
  14: ['sessionAffinityConfig', AFFINITY],
  18: ['clusterIPs', list(text)],
  19: ['ipFamilies', list(repeatedText)],
  22: ['internalTrafficPolicy', repeatedText],
});

const LOAD_BALANCER = message('LoadBalancerStatus', {
  1: ['ingress', list(message('LoadBalancerIngress', { 1: ['ip', text], 3: ['ipMode', repeatedText] }))],
});

export const SERVICE = message('Service', {
  1: ['metadata', OBJECT_META],
  2: ['spec', SPEC],
  3: ['status', message('ServiceStatus', { 1: ['loadBalancer', LOAD_BALANCER] })],
});
