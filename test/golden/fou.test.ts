import { expect, test } from '@jest/globals';
import type { Port } from '../../src/base/port.ts';
import { addGuePort, decodeGuePort, deleteGuePort, dumpGuePorts } from '../../src/netlink/family/fou/gue-port.ts';
import { exchange } from './capture.ts';
import { ip, payloads, sentBytes, written } from './netlink.ts';

/** The ID of the family where the capture was made. */
const FOU = 0x1d;

const request = (name: string): string => sentBytes(exchange('ip-fou', name).sent[0]);
/** Length and flags of a message, then its attributes, sorted: ip writes them in another order. */
const parts = (message: string): readonly string[] => {
  const bytes = Buffer.from(message, 'hex');
  const found = [message.slice(0, 40)];
  for (let at = 20; at < bytes.length; at += (bytes.readUInt16LE(at) + 3) & ~3) {
    found.push(bytes.toString('hex', at, at + bytes.readUInt16LE(at)));
  }
  return found.toSorted();
};

const PORTS = { gue4: ip('10.244.0.2'), gue6: ip('fd00::2') };

test.each(['gue4', 'gue6'] as const)('%s: a port is added and deleted as ip does it', (name) => {
  const port = { port: 6080 as Port, local: PORTS[name] };
  expect(parts(written((writer) => addGuePort(writer, FOU, port)))).toEqual(parts(request(`${name}-add`)));
  // ip names no type; the kernel does not compare it.
  const deleted = parts(request(`${name}-del`)).filter((part) => part !== '0500040001');
  const ours = parts(written((writer) => deleteGuePort(writer, FOU, port))).filter((part) => part !== '0500040002');
  expect(ours).toEqual(deleted);
});

test('ports are listed as ip does it', () => {
  // ip sends another sequence number and no more flags.
  expect(written((writer) => dumpGuePorts(writer, FOU)).slice(0, 8)).toBe(request('fou-show').slice(0, 8));
  expect(written((writer) => dumpGuePorts(writer, FOU)).slice(32)).toBe(request('fou-show').slice(32));
});

test('the ports of GUE that the kernel lists', () => {
  const found = payloads(exchange('ip-fou', 'fou-show').received, FOU).map((payload) => decodeGuePort(payload));
  expect(found).toHaveLength(4);
  expect(found.filter((port) => port !== undefined).map(({ port, local }) => [port, local])).toEqual(
    expect.arrayContaining([
      [6080, ip('10.244.0.2')],
      [6080, ip('fd00::2')],
      [6081, ip('0.0.0.0')],
    ]),
  );
  // The one that receives IPIP without GUE.
  expect(found).toContain(undefined);
});
