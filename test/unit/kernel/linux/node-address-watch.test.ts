import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { NodeAddressWatch } from '../../../../src/kernel/linux/node-address-watch.ts';
import { QuietLog } from '../../../contract/quiet-log.ts';

describe('a watch of node addresses that cannot be opened', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  test('a watch of node addresses that cannot be opened is retried each second, and logged once', () => {
    const log = new QuietLog();
    let changes = 0;
    const watch = new NodeAddressWatch({
      netns: '/run/netns/there-is-none',
      device: 'kube-ipvs0',
      findDevice: () => Promise.resolve(undefined),
      log,
      onChange: () => (changes += 1),
      onDeviceLost: () => undefined,
    });
    watch.start();
    jest.advanceTimersByTime(10_000);
    // Nothing else reports changes meanwhile.
    expect(changes).toBe(10);
    expect(log.troubles).toEqual(['watch on address changes failed; retrying every second']);
    watch.stop();
    jest.advanceTimersByTime(10_000);
    expect(changes).toBe(10);
  });
});
