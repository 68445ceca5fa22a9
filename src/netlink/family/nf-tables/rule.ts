import type { IpFamily } from '../../../base/ip.ts';
import {
  decode,
  forEachAttribute,
  encode,
  type Kind,
  optional,
  required,
  table,
  traced,
} from '../../codec/attribute-table.ts';
import { NLA_F_NESTED, NLM_F_APPEND, NLM_F_CREATE } from '../../codec/flags.ts';
import { NETFILTER } from '../../codec/header.ts';
import { copied, text } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { type NftExpression, expression } from './expression.ts';
import { NFT_MSG_DELRULE, NFT_MSG_GETRULE, NFT_MSG_NEWRULE, beginNft, writeNft } from './message.ts';

type Read = ReturnType<typeof expression.read>;

/** linux/netfilter/nf_tables.h: enum nft_list_attributes. */
const NFTA_LIST_ELEM = 1;
const LIST = table({ expression: traced('NFTA_LIST_ELEM', NFTA_LIST_ELEM, expression) });

const expressionList: Kind<readonly Read[], readonly NftExpression[]> = {
  size: undefined,
  flags: NLA_F_NESTED,
  write: (writer, expressions) => {
    for (const each of expressions) {
      const mark = writer.beginAttribute(NFTA_LIST_ELEM | NLA_F_NESTED);
      expression.write(writer, each);
      writer.endAttribute(mark);
    }
  },
  read: (bytes, start, end) => {
    const found: Read[] = [];
    forEachAttribute(bytes, start, end, (_id, from, to) => found.push(expression.read(bytes, from, to)));
    return found;
  },
  inner: () => LIST,
};

/** linux/netfilter/nf_tables.h: enum nft_rule_attributes. */
export const NFT_RULE = table({
  table: required('NFTA_RULE_TABLE', 1, text),
  chain: required('NFTA_RULE_CHAIN', 2, text),
  expressions: optional('NFTA_RULE_EXPRESSIONS', 4, expressionList),
  /** Data that only nft uses: the comment. */
  userData: optional('NFTA_RULE_USERDATA', 7, copied),
});

export interface NftRule {
  readonly table: string;
  readonly chain: string;
  readonly expressions: readonly NftExpression[];
  readonly userData?: Uint8Array | undefined;
}

/** Appends a rule to its chain. */
export function newRule(writer: MessageWriter, family: IpFamily, rule: NftRule): number {
  return writeNft(writer, NFT_MSG_NEWRULE, family, NFT_RULE, rule, NLM_F_CREATE | NLM_F_APPEND);
}

export function deleteRules(writer: MessageWriter, family: IpFamily, chain: Pick<NftRule, 'table' | 'chain'>): number {
  return writeNft(writer, NFT_MSG_DELRULE, family, RULES_OF, chain);
}

const RULES_OF = table({ table: NFT_RULE.rows.table, chain: NFT_RULE.rows.chain });
const RULES_OF_TABLE = table({ table: NFT_RULE.rows.table });

/** Writes a request for the rules of a table, in the order of their chains. */
export function dumpRules(writer: MessageWriter, family: IpFamily, of: string): number {
  beginNft(writer, NFT_MSG_GETRULE, family);
  encode(writer, RULES_OF_TABLE, { table: of });
  return writer.endDump();
}

/** A rule as the kernel has it. */
export interface ObservedRule {
  readonly chain: string;
  readonly expressions: readonly Read[];
}

/** Throws DecodeError. */
export function decodeRule(payload: Uint8Array): ObservedRule & { readonly table: string } {
  const { table: of, chain, expressions = [] } = decode(NFT_RULE, payload, NETFILTER.size);
  return { table: of, chain, expressions };
}
