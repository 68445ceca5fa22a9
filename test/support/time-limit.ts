import { jest } from '@jest/globals';

// Test machines are shared: the default of five seconds is too short. Files with longer tests set their own limit.
jest.setTimeout(30_000);
