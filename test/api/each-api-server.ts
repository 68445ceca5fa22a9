import { afterAll, afterEach, beforeAll, describe, test } from '@jest/globals';
import { ApiServerUnderTest } from '../apiserver/server-under-test.ts';

/** Milliseconds that the real server may take to start. */
const START_MS = 90_000;

/** Timeout in milliseconds for `eventually`: the real server starts slowly, and its caches lag behind. */
export const PATIENCE_MS = 20_000;

/**
 * Defines the same tests for the server in memory and, if KUBEBUILDER_ASSETS names a folder with etcd and
 * kube-apiserver, for the real one. Starts each server once; each test starts without objects of earlier tests.
 */
export function onEachApiServer(define: (server: () => ApiServerUnderTest) => void): void {
  const assets = process.env['KUBEBUILDER_ASSETS'] ?? '';
  describe('the API server in memory', () => {
    against(() => ApiServerUnderTest.inMemory(), define);
  });
  // Record a todo instead of a pass, because the real server was not tested.
  if (assets === '') {
    test.todo('the real API server was not tried: KUBEBUILDER_ASSETS is not set');
    return;
  }
  describe('the real API server', () => {
    against(() => ApiServerUnderTest.real(assets), define);
  });
}

function against(start: () => Promise<ApiServerUnderTest>, define: (server: () => ApiServerUnderTest) => void): void {
  let started: ApiServerUnderTest | undefined;

  beforeAll(async () => {
    started = await start();
  }, START_MS);

  afterEach(async () => {
    await started?.deleteAll();
  });

  afterAll(async () => {
    await started?.stop();
  });

  define(() => {
    if (started === undefined) throw new Error('the API server was not started');
    return started;
  });
}
