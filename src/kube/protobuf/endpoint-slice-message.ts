import { flag, inner, integer, message, repeatedText, text } from './message-table.ts';
import { OBJECT_META, type ObjectDraft } from './object-meta.ts';

// k8s.io/api/discovery/v1/generated.proto; ObjectReference: k8s.io/api/core/v1/generated.proto

class HintDraft {
  name = '';
}

const HINT = message('EndpointHint', HintDraft, { 1: repeatedText((hint, name) => (hint.name = name)) });

class HintsDraft {
  forZones: HintDraft[] | undefined;
  forNodes: HintDraft[] | undefined;
}

const HINTS = message('EndpointHints', HintsDraft, {
  1: inner(HINT, (hints, zone) => (hints.forZones ??= []).push(zone)),
  2: inner(HINT, (hints, node) => (hints.forNodes ??= []).push(node)),
});

class ConditionsDraft {
  ready: boolean | undefined;
  serving: boolean | undefined;
  terminating: boolean | undefined;
}

const CONDITIONS = message('EndpointConditions', ConditionsDraft, {
  1: flag((conditions, ready) => (conditions.ready = ready)),
  2: flag((conditions, serving) => (conditions.serving = serving)),
  3: flag((conditions, terminating) => (conditions.terminating = terminating)),
});

class ReferenceDraft {
  kind: string | undefined;
  namespace: string | undefined;
}

const REFERENCE = message('ObjectReference', ReferenceDraft, {
  1: repeatedText((reference, kind) => (reference.kind = kind)),
  2: repeatedText((reference, namespace) => (reference.namespace = namespace)),
});

class EndpointDraft {
  addresses: string[] | undefined;
  conditions: ConditionsDraft | undefined;
  targetRef: ReferenceDraft | undefined;
  nodeName: string | undefined;
  zone: string | undefined;
  hints: HintsDraft | undefined;
}

const ENDPOINT = message('Endpoint', EndpointDraft, {
  1: text((endpoint, address) => (endpoint.addresses ??= []).push(address)),
  2: inner(CONDITIONS, (endpoint, conditions) => (endpoint.conditions = conditions)),
  4: inner(REFERENCE, (endpoint, target) => (endpoint.targetRef = target)),
  6: repeatedText((endpoint, node) => (endpoint.nodeName = node)),
  7: repeatedText((endpoint, zone) => (endpoint.zone = zone)),
  8: inner(HINTS, (endpoint, hints) => (endpoint.hints = hints)),
});

class PortDraft {
  name: string | undefined;
  protocol: string | undefined;
  port: number | undefined;
}

const PORT = message('EndpointPort', PortDraft, {
  1: repeatedText((port, name) => (port.name = name)),
  2: repeatedText((port, protocol) => (port.protocol = protocol)),
  3: integer((port, number) => (port.port = number)),
});

class EndpointSliceDraft implements ObjectDraft {
  metadata: ObjectDraft['metadata'];
  endpoints: EndpointDraft[] | undefined;
  ports: PortDraft[] | undefined;
  addressType: string | undefined;
}

export const ENDPOINT_SLICE = message('EndpointSlice', EndpointSliceDraft, {
  1: inner(OBJECT_META, (slice, meta) => (slice.metadata = meta)),
  2: inner(ENDPOINT, (slice, endpoint) => (slice.endpoints ??= []).push(endpoint)),
  3: inner(PORT, (slice, port) => (slice.ports ??= []).push(port)),
  4: repeatedText((slice, type) => (slice.addressType = type)),
});
