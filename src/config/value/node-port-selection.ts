import { type Cidr, parseCidr } from '../../base/cidr.ts';
import { cidr } from './checks.ts';

/** Which of the node's addresses serve node ports. */
export interface NodePortSelection {
  /** Whether the Node's own address of each family is selected (the keyword `primary`). */
  readonly primary: boolean;
  /** The listed CIDRs, and those of the keywords `localhost` and `all`. Nothing at all selects every address. */
  readonly cidrs: readonly Cidr[];
}

/** The keywords of nodePortAddresses, with the CIDRs that they stand for. `primary` depends on the Node. */
const KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  primary: [],
  localhost: ['127.0.0.0/8', '::1/128'],
  all: ['0.0.0.0/0', '::/0'],
};

/** Returns the error of one entry, or undefined if it is a keyword or a CIDR. */
export function checkNodePortEntry(text: string): string | undefined {
  const error = Object.hasOwn(KEYWORDS, text) ? undefined : cidr(text);
  return error === undefined ? undefined : `${error}, or primary, localhost or all`;
}

/** Returns an error if a keyword is listed twice, as in kube-proxy. A CIDR may be. */
export function checkNodePortEntries(entries: readonly string[]): string | undefined {
  const twice = Object.keys(KEYWORDS).filter((keyword) => entries.indexOf(keyword) !== entries.lastIndexOf(keyword));
  if (twice.length === 0) return undefined;
  return `${twice.join(' and ')} ${twice.length === 1 ? 'is' : 'are'} listed more than once`;
}

/** @param entries valid ones: keywords and CIDRs */
export function nodePortSelection(entries: readonly string[]): NodePortSelection {
  const texts = entries.flatMap((entry) => KEYWORDS[entry] ?? [entry]);
  return {
    primary: entries.includes('primary'),
    cidrs: texts.map(parseCidr).filter((cidr) => cidr !== undefined),
  };
}
