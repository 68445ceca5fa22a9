import { inner, message, text } from './message-table.ts';
import { OBJECT_META, type ObjectDraft } from './object-meta.ts';

// k8s.io/api/core/v1/generated.proto

class TaintDraft {
  key = '';
}

class SpecDraft {
  podCIDR: string | undefined;
  podCIDRs: string[] | undefined;
  taints: TaintDraft[] | undefined;
}

const SPEC = message('NodeSpec', SpecDraft, {
  1: text((spec, cidr) => (spec.podCIDR = cidr)),
  5: inner(message('Taint', TaintDraft, { 1: text((taint, key) => (taint.key = key)) }), (spec, taint) =>
    (spec.taints ??= []).push(taint),
  ),
  7: text((spec, cidr) => (spec.podCIDRs ??= []).push(cidr)),
});

class AddressDraft {
  type = '';
  address = '';
}

class StatusDraft {
  addresses: AddressDraft[] | undefined;
}

const STATUS = message('NodeStatus', StatusDraft, {
  5: inner(
    message('NodeAddress', AddressDraft, {
      1: text((address, type) => (address.type = type)),
      2: text((address, ip) => (address.address = ip)),
    }),
    (status, address) => (status.addresses ??= []).push(address),
  ),
});

class NodeDraft implements ObjectDraft {
  metadata: ObjectDraft['metadata'];
  spec: SpecDraft | undefined;
  status: StatusDraft | undefined;
}

export const NODE = message('Node', NodeDraft, {
  1: inner(OBJECT_META, (node, meta) => (node.metadata = meta)),
  2: inner(SPEC, (node, spec) => (node.spec = spec)),
  3: inner(STATUS, (node, status) => (node.status = status)),
});
