import { describe, expect, test } from '@jest/globals';
import { namespacedName } from '../../../../src/base/service/names.ts';
import { servicePortName } from '../../../../src/base/service/service-port-name.ts';
import { isUnnamed, nameOf } from '../../../../src/kernel/iptables-mode/proxy-state.ts';
import { address, virtualServer } from '../../../contract/objects.ts';

describe('the name of a virtual server', () => {
  const id = virtualServer(address(4, 1), 80);

  test.each(['default', 'unnamed', 'UNNAMED', '-', '_', 'a"b'])('is not mistaken for none in namespace %j', (name) => {
    const servicePort = servicePortName(namespacedName(name, 'web'), 'http');
    expect(isUnnamed(nameOf({ ...id, servicePort }))).toBe(false);
  });

  test.each([4, 6] as const)('without one, it is its own, IPv%i', (family) => {
    const name = nameOf(virtualServer(address(family, 1), 80));
    expect(isUnnamed(name)).toBe(true);
    expect(name).not.toBe(nameOf(virtualServer(address(family, 1), 81)));
  });
});
