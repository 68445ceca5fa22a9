import { jest } from '@jest/globals';
import { patient } from '../bed/patience.ts';
import { kernelContract } from './kernel-contract.ts';
import { LinuxBed } from './linux-bed.ts';

// A system call costs tens of microseconds in the test kernel, and a process a tenth of a second.
jest.setTimeout(patient(60_000));

kernelContract(() => LinuxBed.make());
