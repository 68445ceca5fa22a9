import { flag, integer, list, message, repeatedText, text } from './message-table.ts';
import { OBJECT_META } from './object-meta.ts';

// k8s.io/api/discovery/v1/generated.proto; ObjectReference: k8s.io/api/core/v1/generated.proto

const HINT = message('EndpointHint', { 1: ['name', repeatedText] });

const ENDPOINT = message('Endpoint', {
  1: ['addresses', list(text)],
  2: [
    'conditions',
    message('EndpointConditions', { 1: ['ready', flag], 2: ['serving', flag], 3: ['terminating', flag] }),
  ],
  4: ['targetRef', message('ObjectReference', { 1: ['kind', repeatedText], 2: ['namespace', repeatedText] })],
  6: ['nodeName', repeatedText],
  7: ['zone', repeatedText],
  8: ['hints', message('EndpointHints', { 1: ['forZones', list(HINT)], 2: ['forNodes', list(HINT)] })],
});

const PORT = message('EndpointPort', {
  1: ['name', repeatedText],
  2: ['protocol', repeatedText],
  3: ['port', integer],
});

export const ENDPOINT_SLICE = message('EndpointSlice', {
  1: ['metadata', OBJECT_META],
  2: ['endpoints', list(ENDPOINT)],
  3: ['ports', list(PORT)],
  4: ['addressType', repeatedText],
});
