// The worker thread of the engine: a file of its own in the bundle (scripts/bundle.ts).
import { parentPort, workerData } from 'node:worker_threads';
import { Engine } from './engine.ts';
import type { EngineMessage, EngineQuestion, EngineStart } from './engine-messages.ts';

const { limits } = workerData as EngineStart;
const send = (message: EngineMessage): void => parentPort?.postMessage(message);
const engine = new Engine({ limits, onRefused: (refused) => send({ kind: 'refused', refused }) });

parentPort?.on('message', (question: EngineQuestion) => {
  const { number } = question;
  if (question.kind === 'report') send({ kind: 'report', number, report: engine.report() });
  else void engine.apply(question.update).then(() => send({ kind: 'applied', number }));
});
