import { addressAndPort } from './address-text.ts';
import type { Options } from './iptables-options.ts';
import type { Step } from './ruleset.ts';

/** Compiles the target of a rule. Other names than those of targets are chains. */
export function compileTarget(options: Options, chainName: (name: string) => string): Step {
  const compile = TARGETS[options.name];
  if (compile !== undefined) return compile(options);
  if (!/^(KUBE|cali|FLANNEL)-/.test(options.name)) throw new Error(`unknown target ${options.name}`);
  const chain = chainName(options.name);
  return () => ({ kind: 'jump', chain });
}

const TARGETS: Readonly<Record<string, (options: Options) => Step>> = {
  ACCEPT: () => () => ({ kind: 'accept' }),
  DROP: () => () => ({ kind: 'drop' }),
  RETURN: () => () => ({ kind: 'return' }),
  REJECT: (options) => {
    options.value('--reject-with');
    return () => ({ kind: 'reject' });
  },
  MARK: mark,
  DNAT: (options) => {
    const { address, port } = addressAndPort(options.required('--to-destination'));
    return (passage) => {
      passage.destination = address;
      passage.port = port;
      passage.isTranslated = true;
      return { kind: 'accept' };
    };
  },
  MASQUERADE: (options) => {
    options.flag('--random-fully');
    options.value('--to-ports');
    return (passage) => {
      passage.isMasqueraded = true;
      return { kind: 'accept' };
    };
  },
};

/** linux/netfilter/xt_mark.h: the mark loses the bits of a mask, and then some are inverted. */
function mark(options: Options): Step {
  const { mask, xor } = markChange(options);
  return (passage) => {
    passage.mark = ((passage.mark & ~mask) ^ xor) >>> 0;
    return true;
  };
}

function markChange(options: Options): { readonly mask: number; readonly xor: number } {
  const or = options.value('--or-mark');
  if (or !== undefined) return { mask: Number(or), xor: Number(or) };
  const inverted = options.value('--xor-mark');
  if (inverted !== undefined) return { mask: 0, xor: Number(inverted) };
  const [xor = NaN, mask = 0xffff_ffff] = options.required('--set-xmark').split('/').map(Number);
  return { mask, xor };
}
