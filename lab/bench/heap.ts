import { setFlagsFromString } from 'node:v8';
import { setImmediate } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';

/** Bytes that are alive after a full collection. */
export interface Weight {
  readonly heap: number;
  /** Of C++ objects that JavaScript holds, buffers among them. */
  readonly external: number;
  readonly buffers: number;
  /** Of the whole process, in bytes: free memory that it keeps is in it. */
  readonly resident: number;
}

let collect: (() => void) | undefined;

export async function weigh(): Promise<Weight> {
  if (collect === undefined) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as () => void;
  }
  // What has just ended is let go of in a later turn; memory of buffers one collection after their objects.
  for (let turn = 0; turn < 3; turn++) {
    await setImmediate();
    collect();
  }
  const { heapUsed, external, arrayBuffers, rss } = process.memoryUsage();
  return { heap: heapUsed, external, buffers: arrayBuffers, resident: rss };
}
