import { afterAll, afterEach, beforeAll, describe, test } from '@jest/globals';
import { ApiServerUnderTest } from '../apiserver/server-under-test.ts';

/** What the real server may take to start. */
const START_MS = 90_000;

/** For `eventually`: the real server is a slow starter, and its caches are a little late. */
export const PATIENCE_MS = 20_000;

/**
 * Defines the same tests for the server in memory and, where KUBEBUILDER_ASSETS names a folder with etcd and kube-apiserver, for the
 * real one. A server is started once; each test finds it empty.
 */
export function onEachApiServer(define: (server: () => ApiServerUnderTest) => void): void {
  const assets = process.env['KUBEBUILDER_ASSETS'] ?? '';
  describe('the API server in memory', () => {
    against(() => ApiServerUnderTest.inMemory(), define);
  });
  // Not a pass: nothing was tried.
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
