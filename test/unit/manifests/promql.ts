/** One metric in a query, and what is asked of it. */
export interface Selected {
  readonly metric: string;
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[];
  /** The function around it that wants a counter: rate, increase. */
  readonly rated: boolean;
}

export interface Query {
  readonly selected: readonly Selected[];
  /** Labels that `by (...)` keeps; undefined where nothing is aggregated away. */
  readonly by: readonly string[] | undefined;
}

const RATED = ['rate', 'increase'];
const FUNCTIONS = [...RATED, 'histogram_quantile', 'time', 'vector', 'absent', 'absent_over_time'];
const AGGREGATIONS = ['sum', 'max', 'min', 'count', 'quantile'];
const KEYWORDS = new Set([...FUNCTIONS, ...AGGREGATIONS, 'by', 'on', 'or', 'unless']);

const TOKEN = /\s*("(?:[^"\\]|\\.)*"|[A-Za-z_:][\w:]*|\[[^\]]*\]|[=!<>]=|=~|!~|\d+(?:\.\d+)?|[-+*/(){},=<>])/y;

function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  const end = text.trimEnd().length;
  while (TOKEN.lastIndex < end) {
    const from = TOKEN.lastIndex;
    const token = TOKEN.exec(text)?.[1];
    if (token === undefined) throw new Error(`cannot read the query from here: ${text.slice(from)}`);
    tokens.push(token);
  }
  return tokens;
}

function isName(token: string | undefined): token is string {
  return token !== undefined && /^[A-Za-z_:]/.test(token);
}

function checkBrackets(tokens: readonly string[]): void {
  const open: string[] = [];
  for (const token of tokens) {
    if (token === '(' || token === '{') open.push(token);
    else if (token === ')' && open.pop() !== '(') throw new Error('a ) too many');
    else if (token === '}' && open.pop() !== '{') throw new Error('a } too many');
  }
  if (open.length > 0) throw new Error(`${open.join('')} is not closed`);
}

type Matcher = Selected['matchers'][number];

function matchersFrom(tokens: readonly string[], start: number): Matcher[] {
  const matchers: Matcher[] = [];
  for (let i = start + 1; tokens[i] !== '}'; i += tokens[i + 3] === ',' ? 4 : 3) {
    const [label, operator = '', value = ''] = tokens.slice(i, i + 3);
    if (!isName(label) || !value.startsWith('"')) throw new Error(`no matcher: ${tokens.slice(i, i + 3).join(' ')}`);
    matchers.push({ label, operator, value: value.slice(1, -1) });
  }
  return matchers;
}

/** As much of PromQL as our alerts and dashboard use; anything else throws. */
export function readQuery(text: string): Query {
  const tokens = tokensOf(text);
  checkBrackets(tokens);
  const selected: Selected[] = [];
  let by: string[] | undefined;
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i];
    if (token === 'by') {
      const end = tokens.indexOf(')', i);
      by = [...(by ?? []), ...tokens.slice(i + 2, end).filter(isName)];
      i = end;
    } else if (token === '{') {
      i = tokens.indexOf('}', i);
    } else if (isName(token) && KEYWORDS.has(token)) {
      if (AGGREGATIONS.includes(token) && tokens[i + 1] !== 'by') by ??= [];
      if (FUNCTIONS.includes(token) && tokens[i + 1] !== '(') throw new Error(`${token} without (`);
    } else if (isName(token)) {
      const matchers = tokens[i + 1] === '{' ? matchersFrom(tokens, i + 1) : [];
      selected.push({ metric: token, matchers, rated: RATED.includes(tokens[i - 2] ?? '') && tokens[i - 1] === '(' });
    }
  }
  return { selected, by };
}
