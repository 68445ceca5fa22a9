import type { IpFamily } from '../../../base/ip.ts';
import { AF_UNSPEC, addressFamily } from '../../codec/address-family.ts';
import { decode } from '../../codec/attribute-table.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { NLM_F_CREATE } from '../../codec/flags.ts';
import { NETFILTER } from '../../codec/header.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { IPSET_COMMAND, IPSET_MESSAGE, beginIpset } from './message.ts';

/** A set to create. */
export interface IpsetDefinition {
  /** At most 31 bytes. */
  readonly name: string;
  /** For example "hash:ip,port" or "bitmap:port". */
  readonly type: string;
  /** undefined for types without addresses, such as bitmap:port. */
  readonly family: IpFamily | undefined;
  /** Revision of the type; the kernel must support it (see `decodeRevision`). */
  readonly revision: number;
  /** Initial number of buckets; hash types only. Default 1024. */
  readonly hashSize?: number;
  /** hash types only. Default 65536. */
  readonly maxEntries?: number;
  /** The range of a bitmap:port set, which requires both ports. */
  readonly firstPort?: number;
  readonly lastPort?: number;
}

/** Creates an empty set; EEXIST if a set of this name exists with other properties. */
export function createSet(writer: MessageWriter, protocol: number, definition: IpsetDefinition): number {
  const { name, type, revision } = definition;
  const family = familyCode(definition.family);
  beginIpset(
    writer,
    IPSET_COMMAND.create,
    { protocol, name, type, revision, family, options: definition },
    NLM_F_CREATE,
  );
  return writer.end();
}

/** Deletes a set; IPSET_ERR_BUSY if a rule refers to it, ENOENT if it does not exist. */
export function destroySet(writer: MessageWriter, protocol: number, name: string): number {
  beginIpset(writer, IPSET_COMMAND.destroy, { protocol, name });
  return writer.end();
}

/** Writes a request for the supported revisions of a type, whose module the kernel loads. See `decodeRevision`. */
export function getType(writer: MessageWriter, protocol: number, type: string, family: IpFamily | undefined): number {
  beginIpset(writer, IPSET_COMMAND.type, { protocol, type, family: familyCode(family) });
  return writer.end();
}

/** Returns the newest revision. Throws DecodeError. */
export function decodeRevision(payload: Uint8Array): number {
  const { revision } = decode(IPSET_MESSAGE, payload, NETFILTER.size);
  if (revision === undefined) throw new DecodeError('IPSET_ATTR_REVISION', NETFILTER.size, 'missing');
  return revision;
}

function familyCode(family: IpFamily | undefined): number {
  return family === undefined ? AF_UNSPEC : addressFamily(family);
}

/** Newest and oldest version that we support (linux/netfilter/ipset/ip_set.h). Kernels before 4.20 have only 6. */
const IPSET_PROTOCOL = 7;
const IPSET_PROTOCOL_MIN = 6;

/** Writes a request for the protocol versions that the kernel supports. `chooseProtocol` decodes the reply. */
export function getProtocol(writer: MessageWriter): number {
  beginIpset(writer, IPSET_COMMAND.protocol, { protocol: IPSET_PROTOCOL });
  return writer.end();
}

/** Returns the newest version that both sides support, for all other commands. Throws DecodeError if there is none. */
export function chooseProtocol(payload: Uint8Array): number {
  const { protocol: newest, oldest = 0 } = decode(IPSET_MESSAGE, payload, NETFILTER.size);
  const version = Math.min(newest, IPSET_PROTOCOL);
  if (version < IPSET_PROTOCOL_MIN || version < oldest) {
    const problem =
      `the kernel supports versions ${oldest} to ${newest} of the ipset protocol, ` +
      `kube-ipvs-proxy versions ${IPSET_PROTOCOL_MIN} to ${IPSET_PROTOCOL}`;
    throw new DecodeError('IPSET_ATTR_PROTOCOL', NETFILTER.size, problem);
  }
  return version;
}
