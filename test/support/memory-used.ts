import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Returns what is in use after a garbage collection, in bytes. */
export async function memoryUsed(): Promise<NodeJS.MemoryUsage> {
  // V8 keeps the text in which a regular expression last found something.
  /x/.exec('x');
  // What has just ended is let go of in a later turn.
  for (let turn = 0; turn < 3; turn++) {
    await setImmediate();
    collect();
  }
  return process.memoryUsage();
}
