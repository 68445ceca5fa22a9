// The worker thread of the engine: a file of its own in the bundle (scripts/bundle.ts).
import { Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { isNativeError } from '../netlink/transport/addon.ts';
import { originalDestination as readOriginalDestination } from '../netlink/transport/original-destination.ts';
import { Engine, type OriginalDestination } from './engine.ts';
import type { EngineMessage, EngineQuestion, EngineStart } from './engine-messages.ts';

const { limits } = workerData as EngineStart;
const send = (message: EngineMessage): void => parentPort?.postMessage(message);

/** Undefined if the client has gone, or nothing translated its destination. */
const originalDestination: OriginalDestination = (_listener, client) => {
  if (!(client instanceof Socket)) return undefined;
  try {
    return readOriginalDestination(client);
  } catch (error) {
    if (!isNativeError(error)) throw error;
    return undefined;
  }
};

const engine = new Engine({
  limits,
  originalDestination,
  onRefused: (refused) => send({ kind: 'refused', refused }),
});

parentPort?.on('message', (question: EngineQuestion) => {
  const { number } = question;
  switch (question.kind) {
    case 'report':
      return send({ kind: 'report', number, report: engine.report() });
    case 'traffic':
      return send({ kind: 'traffic', number, traffic: engine.traffic(question.keys) });
    case 'apply':
      return void engine.apply(question.update).then(() => send({ kind: 'applied', number }));
  }
});
