import type { Way } from './steady-load.ts';

/** A Service beside those of manifests/demo. */
export const DNS = `
apiVersion: v1
kind: Service
metadata: { name: dns, namespace: default }
spec:
  clusterIP: 10.202.0.20
  clusterIPs: [10.202.0.20]
  ipFamilies: [IPv4]
  ports: [{ name: dns, protocol: UDP, port: 53 }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: dns-1, namespace: default, labels: { kubernetes.io/service-name: dns } }
addressType: IPv4
ports: [{ name: dns, protocol: UDP, port: 8080 }]
endpoints:
  - { addresses: [10.201.0.10], nodeName: node-0, conditions: { ready: true } }
  - { addresses: [10.201.0.11], nodeName: node-0, conditions: { ready: true } }
`;

/** How GUARDED is reached. */
export const GUARDED_WAY: Way = ['load balancer IP with source ranges', 'tcp', '10.203.0.30', 80];

/** A load balancer IP for the first eight clients of a bed only. */
export const GUARDED = `apiVersion: v1
kind: Service
metadata: { name: guarded, namespace: default }
spec:
  type: LoadBalancer
  clusterIP: 10.202.0.30
  clusterIPs: [10.202.0.30]
  ipFamilies: [IPv4]
  allocateLoadBalancerNodePorts: false
  loadBalancerSourceRanges: [10.200.0.100/30, 10.200.0.104/30]
  ports: [{ name: http, protocol: TCP, port: 80 }]
status: { loadBalancer: { ingress: [{ ip: 10.203.0.30 }] } }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: guarded-1, namespace: default, labels: { kubernetes.io/service-name: guarded } }
addressType: IPv4
ports: [{ name: http, protocol: TCP, port: 8080 }]
endpoints:
  - { addresses: [10.201.0.10], nodeName: node-0, conditions: { ready: true } }
  - { addresses: [10.201.0.11], nodeName: node-0, conditions: { ready: true } }
`;
