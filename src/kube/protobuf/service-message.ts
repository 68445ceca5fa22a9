import { inner, integer, message, repeatedText, text } from './message-table.ts';
import { OBJECT_META, type ObjectDraft } from './object-meta.ts';

// k8s.io/api/core/v1/generated.proto

class PortDraft {
  name: string | undefined;
  protocol: string | undefined;
  port: number | undefined;
  nodePort: number | undefined;
}

const PORT = message('ServicePort', PortDraft, {
  1: repeatedText((port, name) => (port.name = name)),
  2: repeatedText((port, protocol) => (port.protocol = protocol)),
  3: integer((port, number) => (port.port = number)),
  5: integer((port, number) => (port.nodePort = number)),
});

class ClientIpDraft {
  timeoutSeconds: number | undefined;
}

class AffinityDraft {
  clientIP: ClientIpDraft | undefined;
}

const AFFINITY = message('SessionAffinityConfig', AffinityDraft, {
  1: inner(
    message('ClientIPConfig', ClientIpDraft, {
      1: integer((config, seconds) => (config.timeoutSeconds = seconds)),
    }),
    (config, clientIp) => (config.clientIP = clientIp),
  ),
});

class SpecDraft {
  ports: PortDraft[] | undefined;
  clusterIP: string | undefined;
  type: string | undefined;
  externalIPs: string[] | undefined;
  sessionAffinity: string | undefined;
  loadBalancerSourceRanges: string[] | undefined;
  externalTrafficPolicy: string | undefined;
  healthCheckNodePort: number | undefined;
  sessionAffinityConfig: AffinityDraft | undefined;
  clusterIPs: string[] | undefined;
  ipFamilies: string[] | undefined;
  internalTrafficPolicy: string | undefined;
}

const SPEC = message('ServiceSpec', SpecDraft, {
  1: inner(PORT, (spec, port) => (spec.ports ??= []).push(port)),
  3: text((spec, ip) => (spec.clusterIP = ip)),
  4: repeatedText((spec, type) => (spec.type = type)),
  5: text((spec, ip) => (spec.externalIPs ??= []).push(ip)),
  7: repeatedText((spec, affinity) => (spec.sessionAffinity = affinity)),
  9: text((spec, range) => (spec.loadBalancerSourceRanges ??= []).push(range)),
  11: repeatedText((spec, policy) => (spec.externalTrafficPolicy = policy)),
  12: integer((spec, port) => (spec.healthCheckNodePort = port)),
  14: inner(AFFINITY, (spec, config) => (spec.sessionAffinityConfig = config)),
  18: text((spec, ip) => (spec.clusterIPs ??= []).push(ip)),
  19: repeatedText((spec, family) => (spec.ipFamilies ??= []).push(family)),
  22: repeatedText((spec, policy) => (spec.internalTrafficPolicy = policy)),
});

class IngressDraft {
  ip: string | undefined;
  ipMode: string | undefined;
}

class LoadBalancerDraft {
  ingress: IngressDraft[] | undefined;
}

const LOAD_BALANCER = message('LoadBalancerStatus', LoadBalancerDraft, {
  1: inner(
    message('LoadBalancerIngress', IngressDraft, {
      1: text((ingress, ip) => (ingress.ip = ip)),
      3: repeatedText((ingress, mode) => (ingress.ipMode = mode)),
    }),
    (status, ingress) => (status.ingress ??= []).push(ingress),
  ),
});

class StatusDraft {
  loadBalancer: LoadBalancerDraft | undefined;
}

const STATUS = message('ServiceStatus', StatusDraft, {
  1: inner(LOAD_BALANCER, (status, loadBalancer) => (status.loadBalancer = loadBalancer)),
});

class ServiceDraft implements ObjectDraft {
  metadata: ObjectDraft['metadata'];
  spec: SpecDraft | undefined;
  status: StatusDraft | undefined;
}

export const SERVICE = message('Service', ServiceDraft, {
  1: inner(OBJECT_META, (service, meta) => (service.metadata = meta)),
  2: inner(SPEC, (service, spec) => (service.spec = spec)),
  3: inner(STATUS, (service, status) => (service.status = status)),
});
