import { jest } from '@jest/globals';

// Machines that run these tests are shared, and some tests wait for a timer, a socket or a slow kernel with one processor. A test
// that fails is tried once more, with its first failure printed; one that fails twice has failed.
jest.retryTimes(1, { logErrorsBeforeRetry: true });
// Five seconds, the default, are soon over on such a machine. Files with longer tests say so themselves.
jest.setTimeout(30_000);
