import { jest } from '@jest/globals';

// A slow kernel with one processor on a busy machine misses a moment now and then. A test that fails is tried once more, with its
// first failure printed; one that fails twice has failed.
jest.retryTimes(1, { logErrorsBeforeRetry: true });
