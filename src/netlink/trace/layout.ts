import { ipFamily } from '../codec/address-family.ts';
import { decode, nested, type Kind, type Rows, type Table, optional, table, traced } from '../codec/attribute-table.ts';
import { type Header, NETFILTER, header } from '../codec/header.ts';
import { u16 } from '../codec/kind.ts';
import { FLOW } from '../family/conntrack/flow.ts';
import { FAMILY, GENL_ID_CTRL } from '../family/genl-ctrl/family.ts';
import { IPSET_COMMAND, IPSET_MESSAGE, IPSET_SWAP } from '../family/ipset/message.ts';
import { CONFIG } from '../family/ipvs/config.ts';
import { DESTINATION } from '../family/ipvs/destination.ts';
import { SERVICE } from '../family/ipvs/service.ts';
import { BATCH, GENERATION } from '../family/nf-tables/nft-batch.ts';
import { NFT_CHAIN } from '../family/nf-tables/chain.ts';
import { NFT_ELEMENTS } from '../family/nf-tables/element.ts';
import { NFT_RULE } from '../family/nf-tables/rule.ts';
import { NFT_SET } from '../family/nf-tables/set.ts';
import { NFT_TABLE } from '../family/nf-tables/table.ts';
import { ADDRESS, ADDRESS_HEADER } from '../family/route/address.ts';
import { LINK, LINK_HEADER } from '../family/route/link.ts';
import { ROUTE, ROUTE_HEADER } from '../family/route/host-route.ts';
import { NETLINK_GENERIC, NETLINK_ROUTE } from '../netlink-protocol.ts';

/** Layout of the payload of one message type. */
export interface Layout {
  readonly name: string;
  readonly header: Header;
  readonly table: Table<Rows>;
}

/** The fields are not listed here, because the trace already names the command. */
const GENERIC = header('struct genlmsghdr', [['', 4]]);

/** A nested attribute whose table depends on the address family in its attribute `id`. */
function nestByFamily(id: number, tables: Readonly<Record<4 | 6, Table<Rows>>>): Kind<unknown> {
  const selector = table({ family: optional('family', id, u16) });
  return {
    ...nested(tables[4]),
    inner: (bytes, start, end) => tables[ipFamily(decode(selector, bytes, start, end).family ?? 0) ?? 4],
  };
}

const IPVS = table({
  service: traced('IPVS_CMD_ATTR_SERVICE', 1, nestByFamily(1, SERVICE)),
  destination: traced('IPVS_CMD_ATTR_DEST', 2, nestByFamily(11, DESTINATION)),
  ...CONFIG.rows,
});

// Commands by number: linux/rtnetlink.h, ip_vs.h, netfilter/ipset/ip_set.h, nfnetlink_conntrack.h, nf_tables.h.
const VERBS = ['NEW', 'DEL', 'GET', 'SET'];
const IPVS_COMMANDS =
  '- NEW_SERVICE SET_SERVICE DEL_SERVICE GET_SERVICE NEW_DEST SET_DEST DEL_DEST GET_DEST NEW_DAEMON DEL_DAEMON GET_DAEMON SET_CONFIG GET_CONFIG SET_INFO GET_INFO ZERO FLUSH'.split(
    ' ',
  );
const IPSET_COMMANDS = 'NONE PROTOCOL CREATE DESTROY FLUSH RENAME IPSET_SWAP LIST SAVE ADD DEL TEST HEADER TYPE'.split(
  ' ',
);
const CONNTRACK_COMMANDS = ['NEW', 'GET', 'DELETE'];
const NFT_COMMANDS = ['NEW', 'GET', 'DEL'];
/** Each has three commands, in this order. */
const NFT_OBJECTS: readonly (readonly [name: string, table: Table<Rows>])[] = [
  ['TABLE', NFT_TABLE],
  ['CHAIN', NFT_CHAIN],
  ['RULE', NFT_RULE],
  ['SET', NFT_SET],
  ['SETELEM', NFT_ELEMENTS],
  ['GEN', GENERATION],
];
const CONTROL_COMMANDS = ['-', 'NEW', 'DEL', 'GET'];

/** Returns the layout of a message, or undefined if the program does not use its type. */
export function layoutOf(protocol: number, type: number, payload: Uint8Array): Layout | undefined {
  if (protocol === NETLINK_ROUTE) return routeLayout(type);
  if (protocol === NETLINK_GENERIC) {
    const [command = 0] = payload;
    return type === GENL_ID_CTRL
      ? { name: `CTRL_CMD_${CONTROL_COMMANDS[command]}FAMILY`, header: GENERIC, table: FAMILY }
      : { name: `IPVS_CMD_${IPVS_COMMANDS[command]}`, header: GENERIC, table: IPVS };
  }
  return netfilterLayout(type >> 8, type & 0xff);
}

function netfilterLayout(subsystem: number, command: number): Layout | undefined {
  switch (subsystem) {
    case 1:
      return { name: `IPCTNL_MSG_CT_${CONNTRACK_COMMANDS[command]}`, header: NETFILTER, table: FLOW };
    case 6: {
      const rows = command === IPSET_COMMAND.swap ? IPSET_SWAP : IPSET_MESSAGE;
      return { name: `IPSET_CMD_${IPSET_COMMANDS[command]}`, header: NETFILTER, table: rows };
    }
    case 10:
      return nftLayout(command);
    case 0:
      return { name: `NFNL_MSG_BATCH_${command === 16 ? 'BEGIN' : 'END'}`, header: NETFILTER, table: BATCH };
    default:
      return undefined;
  }
}

function nftLayout(command: number): Layout | undefined {
  const object = NFT_OBJECTS[Math.floor(command / 3)];
  if (object === undefined) return undefined;
  const [name, rows] = object;
  return { name: `NFT_MSG_${NFT_COMMANDS[command % 3]}${name}`, header: NETFILTER, table: rows };
}

function routeLayout(type: number): Layout | undefined {
  const verb = VERBS[type & 3];
  switch (type & ~3) {
    case 16:
      return { name: `RTM_${verb}LINK`, header: LINK_HEADER, table: LINK };
    case 20:
      return { name: `RTM_${verb}ADDR`, header: ADDRESS_HEADER, table: ADDRESS };
    case 24:
      return { name: `RTM_${verb}ROUTE`, header: ROUTE_HEADER, table: ROUTE };
    default:
      return undefined;
  }
}
