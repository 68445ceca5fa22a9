import { ipFamily } from '../codec/address-family.ts';
import { readU16 } from '../codec/bytes.ts';
import { findPayload, payloadEnd } from '../codec/decode.ts';
import { GENERIC_HEADER_SIZE } from '../codec/generic-message.ts';
import { type Kind, be32, marked, text, u32, u8 } from '../codec/kind.ts';
import { nested } from '../codec/nested.ts';
import { type Rows, type Table, optional, table } from '../codec/table.ts';
import { FLOW } from '../family/conntrack/flow.ts';
import { FAMILY, GENL_ID_CTRL } from '../family/genl-ctrl/family.ts';
import { IPSET_COMMAND } from '../family/ipset/command.ts';
import { OPTIONS } from '../family/ipset/definition.ts';
import { ENTRY } from '../family/ipset/entry.ts';
import { HEADER } from '../family/ipset/listing.ts';
import { CONFIG } from '../family/ipvs/config.ts';
import { OBSERVED } from '../family/ipvs/destination.ts';
import { SERVICE } from '../family/ipvs/service.ts';
import { STATS, STATS64 } from '../family/ipvs/stats.ts';
import { ADDRESS } from '../family/route/address.ts';
import { LINK } from '../family/route/link.ts';
import { OBSERVED as ROUTE } from '../family/route/local-route.ts';
import { NETLINK_GENERIC, NETLINK_ROUTE } from '../protocol.ts';

/** Layout of the payload of one message type. */
export interface Layout {
  /** The command's name in the kernel's header. */
  readonly name: string;
  /** Fields of the family's header, in order; fields without a name are not shown. */
  readonly fields: readonly (readonly [name: string, bytes: 1 | 2 | 4])[];
  readonly table: Table<Rows>;
}

type Fields = Layout['fields'];

const NO_ATTRIBUTES: Table<Rows> = table({});
const GENERIC: Fields = [['', GENERIC_HEADER_SIZE]];
const NETFILTER: Fields = [
  ['nfgen_family', 1],
  ['', 1],
  ['', 2],
];
const LINK_FIELDS: Fields = [
  ['ifi_family', 1],
  ['', 1],
  ['ifi_type', 2],
  ['ifi_index', 4],
  ['ifi_flags', 4],
  ['ifi_change', 4],
];
const ADDRESS_FIELDS: Fields = [
  ['ifa_family', 1],
  ['ifa_prefixlen', 1],
  ['ifa_flags', 1],
  ['ifa_scope', 1],
  ['ifa_index', 4],
];
const ROUTE_FIELDS: Fields = [
  ['rtm_family', 1],
  ['rtm_dst_len', 1],
  ['', 1],
  ['', 1],
  ['rtm_table', 1],
  ['rtm_protocol', 1],
  ['rtm_scope', 1],
  ['rtm_type', 1],
  ['rtm_flags', 4],
];

/** A nested attribute whose table depends on the address family in its attribute `id`. */
function nestByFamily(id: number, tables: Readonly<Record<4 | 6, Table<Rows>>>): Kind<unknown> {
  return {
    ...nested(NO_ATTRIBUTES),
    inner: (bytes, start, end) => {
      const at = findPayload(bytes, start, end, id);
      return tables[(at >= 0 && payloadEnd(bytes, at) - at === 2 ? ipFamily(readU16(bytes, at)) : undefined) ?? 4];
    },
  };
}

const SERVICE_STATS = {
  stats: optional('IPVS_SVC_ATTR_STATS', 10, nested(STATS)),
  stats64: optional('IPVS_SVC_ATTR_STATS64', 12, nested(STATS64)),
};
const DESTINATION_STATS = {
  stats: optional('IPVS_DEST_ATTR_STATS', 10, nested(STATS)),
  stats64: optional('IPVS_DEST_ATTR_STATS64', 12, nested(STATS64)),
};
const services = (family: 4 | 6): Table<Rows> => table({ ...SERVICE[family].rows, ...SERVICE_STATS });
const destinations = (family: 4 | 6): Table<Rows> => table({ ...OBSERVED[family].rows, ...DESTINATION_STATS });
const IPVS = table({
  service: optional('IPVS_CMD_ATTR_SERVICE', 1, nestByFamily(1, { 4: services(4), 6: services(6) })),
  destination: optional('IPVS_CMD_ATTR_DEST', 2, nestByFamily(11, { 4: destinations(4), 6: destinations(6) })),
  ...CONFIG.rows,
});

const LINE = optional('IPSET_ATTR_LINENO', 9, marked(be32));
const ENTRY_DATA = optional('IPSET_ATTR_DATA', 7, nested(table({ ...ENTRY.rows, line: LINE })));
const IPSET = {
  protocol: optional('IPSET_ATTR_PROTOCOL', 1, u8),
  name: optional('IPSET_ATTR_SETNAME', 2, text),
  type: optional('IPSET_ATTR_TYPENAME', 3, text),
  revision: optional('IPSET_ATTR_REVISION', 4, u8),
  family: optional('IPSET_ATTR_FAMILY', 5, u8),
  flags: optional('IPSET_ATTR_FLAGS', 6, marked(be32)),
  data: optional('IPSET_ATTR_DATA', 7, nested(table({ ...OPTIONS, ...HEADER.rows }))),
  entries: optional('IPSET_ATTR_ADT', 8, nested(table({ entry: ENTRY_DATA }))),
  line: LINE,
  oldest: optional('IPSET_ATTR_PROTOCOL_MIN', 10, u8),
};
const SETS = table(IPSET);
const SWAPPED_SETS = table({ ...IPSET, type: optional('IPSET_ATTR_SETNAME2', 3, text) });
const CHANGED_ENTRIES = table({ ...IPSET, data: ENTRY_DATA });
/** Tables by command; all other commands use SETS. */
const IPSET_TABLES: Readonly<Record<number, Table<Rows>>> = {
  [IPSET_COMMAND.swap]: SWAPPED_SETS,
  [IPSET_COMMAND.add]: CHANGED_ENTRIES,
  [IPSET_COMMAND.delete]: CHANGED_ENTRIES,
};

const LINKS = table({ ...LINK.rows, mask: optional('IFLA_EXT_MASK', 29, u32) });
const NFT_TABLE = table({ name: optional('NFTA_TABLE_NAME', 1, text) });

// Commands by number: linux/rtnetlink.h, ip_vs.h, netfilter/ipset/ip_set.h, nfnetlink_conntrack.h, nf_tables.h.
const VERBS = ['NEW', 'DEL', 'GET', 'SET'];
const IPVS_COMMANDS =
  '- NEW_SERVICE SET_SERVICE DEL_SERVICE GET_SERVICE NEW_DEST SET_DEST DEL_DEST GET_DEST NEW_DAEMON DEL_DAEMON GET_DAEMON SET_CONFIG GET_CONFIG SET_INFO GET_INFO ZERO FLUSH'.split(
    ' ',
  );
const IPSET_COMMANDS = 'NONE PROTOCOL CREATE DESTROY FLUSH RENAME SWAP LIST SAVE ADD DEL TEST HEADER TYPE'.split(' ');
const CONNTRACK_COMMANDS = ['NEW', 'GET', 'DELETE'];
const NFT_COMMANDS = ['NEW', 'GET', 'DEL'];
const CONTROL_COMMANDS = ['-', 'NEW', 'DEL', 'GET'];

/** Returns the layout of a message, or undefined if the program does not use its type. */
export function layoutOf(protocol: number, type: number, payload: Uint8Array): Layout | undefined {
  const first = payload[0] ?? 0;
  if (protocol === NETLINK_ROUTE) return routeLayout(type, ipFamily(first) ?? 4);
  if (protocol === NETLINK_GENERIC) {
    const fields = GENERIC;
    if (type === GENL_ID_CTRL) return { name: `CTRL_CMD_${CONTROL_COMMANDS[first]}FAMILY`, fields, table: FAMILY };
    return { name: `IPVS_CMD_${IPVS_COMMANDS[first]}`, fields, table: IPVS };
  }
  const command = type & 0xff;
  const fields = NETFILTER;
  switch (type >> 8) {
    case 1:
      return { name: `IPCTNL_MSG_CT_${CONNTRACK_COMMANDS[command]}`, fields, table: FLOW[ipFamily(first) ?? 4] };
    case 6:
      return {
        name: `IPSET_CMD_${IPSET_COMMANDS[command]}`,
        fields,
        table: IPSET_TABLES[command] ?? SETS,
      };
    case 10:
      return { name: `NFT_MSG_${NFT_COMMANDS[command]}TABLE`, fields, table: NFT_TABLE };
    default:
      return undefined;
  }
}

function routeLayout(type: number, family: 4 | 6): Layout | undefined {
  const verb = VERBS[type & 3];
  switch (type & ~3) {
    case 16:
      return { name: `RTM_${verb}LINK`, fields: LINK_FIELDS, table: LINKS };
    case 20:
      return { name: `RTM_${verb}ADDR`, fields: ADDRESS_FIELDS, table: ADDRESS[family] };
    case 24:
      return { name: `RTM_${verb}ROUTE`, fields: ROUTE_FIELDS, table: ROUTE[family] };
    default:
      return undefined;
  }
}
