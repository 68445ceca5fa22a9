import { list, message, text } from './message-table.ts';
import { OBJECT_META } from './object-meta.ts';

// k8s.io/api/core/v1/generated.proto

const SPEC = message('NodeSpec', {
  1: ['podCIDR', text],
  5: ['taints', list(message('Taint', { 1: ['key', text] }))],
  7: ['podCIDRs', list(text)],
});

const STATUS = message('NodeStatus', {
  5: ['addresses', list(message('NodeAddress', { 1: ['type', text], 2: ['address', text] }))],
});

export const NODE = message('Node', {
  1: ['metadata', OBJECT_META],
  2: ['spec', SPEC],
  3: ['status', STATUS],
});
