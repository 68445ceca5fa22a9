import type { Schema } from './encode.ts';

/**
 * Field numbers and types of what Kubernetes sends, from the comments in k8s.io/api/{core,discovery}/v1/types.go and
 * k8s.io/apimachinery/pkg/apis/meta/v1/types.go (`protobuf:"bytes,1,opt,name=..."`), with also what no proxy reads.
 * A dash in front of a type: Go has no pointer for it, so that the zero value is sent too.
 */
const META: Schema = {
  name: [1, '-string'],
  generateName: [2, '-string'],
  namespace: [3, '-string'],
  selfLink: [4, '-string'],
  uid: [5, '-string'],
  resourceVersion: [6, '-string'],
  generation: [7, '-int'],
  creationTimestamp: [8, '-time'],
  deletionTimestamp: [9, 'time'],
  deletionGracePeriodSeconds: [10, 'int'],
  labels: [11, 'map'],
  annotations: [12, 'map'],
  ownerReferences: [
    13,
    [
      {
        kind: [1, '-string'],
        name: [3, '-string'],
        uid: [4, '-string'],
        apiVersion: [5, '-string'],
        controller: [6, 'bool'],
        blockOwnerDeletion: [7, 'bool'],
      },
    ],
  ],
  finalizers: [14, ['string']],
  managedFields: [
    17,
    [
      {
        manager: [1, '-string'],
        operation: [2, '-string'],
        apiVersion: [3, '-string'],
        time: [4, 'time'],
        fieldsType: [6, '-string'],
        fieldsV1: [7, 'json'],
        subresource: [8, '-string'],
      },
    ],
  ],
};

const CONDITION: Schema = {
  type: [1, '-string'],
  status: [2, '-string'],
  observedGeneration: [3, '-int'],
  lastTransitionTime: [4, '-time'],
  reason: [5, '-string'],
  message: [6, '-string'],
};

const SERVICE: Schema = {
  metadata: [1, META, 'always'],
  spec: [
    2,
    {
      ports: [
        1,
        [
          {
            name: [1, '-string'],
            protocol: [2, '-string'],
            port: [3, '-int'],
            targetPort: [4, 'int-or-string'],
            nodePort: [5, '-int'],
            appProtocol: [6, 'string'],
          },
        ],
      ],
      selector: [2, 'map'],
      clusterIP: [3, '-string'],
      type: [4, '-string'],
      externalIPs: [5, ['string']],
      sessionAffinity: [7, '-string'],
      loadBalancerIP: [8, '-string'],
      loadBalancerSourceRanges: [9, ['string']],
      externalName: [10, '-string'],
      externalTrafficPolicy: [11, '-string'],
      healthCheckNodePort: [12, '-int'],
      publishNotReadyAddresses: [13, '-bool'],
      sessionAffinityConfig: [14, { clientIP: [1, { timeoutSeconds: [1, 'int'] }] }],
      ipFamilyPolicy: [17, 'string'],
      clusterIPs: [18, ['string']],
      ipFamilies: [19, ['string']],
      allocateLoadBalancerNodePorts: [20, 'bool'],
      loadBalancerClass: [21, 'string'],
      internalTrafficPolicy: [22, 'string'],
      trafficDistribution: [23, 'string'],
    },
    'always',
  ],
  status: [
    3,
    {
      loadBalancer: [
        1,
        {
          ingress: [
            1,
            [
              {
                ip: [1, '-string'],
                hostname: [2, '-string'],
                ipMode: [3, 'string'],
                ports: [4, [{ port: [1, '-int'], protocol: [2, '-string'], error: [3, 'string'] }]],
              },
            ],
          ],
        },
        'always',
      ],
      conditions: [2, [CONDITION]],
    },
    'always',
  ],
};

const HINT: Schema = { name: [1, '-string'] };

const ENDPOINT_SLICE: Schema = {
  metadata: [1, META, 'always'],
  endpoints: [
    2,
    [
      {
        addresses: [1, ['string']],
        conditions: [2, { ready: [1, 'bool'], serving: [2, 'bool'], terminating: [3, 'bool'] }, 'always'],
        hostname: [3, 'string'],
        targetRef: [
          4,
          {
            kind: [1, '-string'],
            namespace: [2, '-string'],
            name: [3, '-string'],
            uid: [4, '-string'],
            apiVersion: [5, '-string'],
            resourceVersion: [6, '-string'],
            fieldPath: [7, '-string'],
          },
        ],
        deprecatedTopology: [5, 'map'],
        nodeName: [6, 'string'],
        zone: [7, 'string'],
        hints: [8, { forZones: [1, [HINT]], forNodes: [2, [HINT]] }],
      },
    ],
  ],
  ports: [3, [{ name: [1, 'string'], protocol: [2, 'string'], port: [3, 'int'], appProtocol: [4, 'string'] }]],
  addressType: [4, '-string'],
};

const NODE: Schema = {
  metadata: [1, META, 'always'],
  spec: [
    2,
    {
      podCIDR: [1, '-string'],
      externalID: [2, '-string'],
      providerID: [3, '-string'],
      unschedulable: [4, '-bool'],
      taints: [5, [{ key: [1, '-string'], value: [2, '-string'], effect: [3, '-string'], timeAdded: [4, 'time'] }]],
      podCIDRs: [7, ['string']],
    },
    'always',
  ],
  status: [
    3,
    {
      phase: [3, '-string'],
      addresses: [5, [{ type: [1, '-string'], address: [2, '-string'] }]],
      images: [8, [{ names: [1, ['string']], sizeBytes: [2, '-int'] }]],
      volumesInUse: [9, ['string']],
    },
    'always',
  ],
};

export const LIST_META: Schema = {
  selfLink: [1, '-string'],
  resourceVersion: [2, '-string'],
  continue: [3, '-string'],
  remainingItemCount: [4, 'int'],
};

const STATUS: Schema = {
  metadata: [1, LIST_META, 'always'],
  status: [2, '-string'],
  message: [3, '-string'],
  reason: [4, '-string'],
  details: [
    5,
    {
      name: [1, '-string'],
      group: [2, '-string'],
      kind: [3, '-string'],
      causes: [4, [{ reason: [1, '-string'], message: [2, '-string'], field: [3, '-string'] }]],
      retryAfterSeconds: [5, '-int'],
      uid: [6, '-string'],
    },
  ],
  code: [6, '-int'],
};

/** By kind. */
export const SCHEMAS: Readonly<Record<string, Schema>> = {
  Service: SERVICE,
  EndpointSlice: ENDPOINT_SLICE,
  Node: NODE,
  Status: STATUS,
};
