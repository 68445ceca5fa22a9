// Starts the bundled program (scripts/bundle.ts): one function expression in kube-ipvs-proxy.js beside this file. kube-ipvs-proxy.cache holds
// what V8 made of it when it was built (scripts/compile.ts): digests of the text and of the rest, 32 bytes each, then the rest. Where it is
// missing, damaged, of another text or of another V8, the text is compiled as ever.
import type { Buffer } from 'node:buffer';

type Program = (require: NodeJS.Require, url: string) => void;

const DIGEST = 32;

// A static import would load more of them than is used.
const { readFileSync } = process.getBuiltinModule('node:fs');
const { createRequire } = process.getBuiltinModule('node:module');
const { hash } = process.getBuiltinModule('node:crypto');
const { Script } = process.getBuiltinModule('node:vm');

const url = new URL('./kube-ipvs-proxy.js', import.meta.url);
const text = readFileSync(url);

/** V8 itself looks at its version, its flags and the length of the text only, and would run what is damaged. */
function compiled(): Buffer | undefined {
  try {
    const file = readFileSync(new URL('./kube-ipvs-proxy.cache', import.meta.url));
    const cachedData = file.subarray(2 * DIGEST);
    const digests = [text, cachedData].map((bytes) => hash('sha256', bytes, 'hex')).join('');
    return file.toString('hex', 0, 2 * DIGEST) === digests ? cachedData : undefined;
  } catch {
    return undefined;
  }
}

// The bundle is ASCII: nothing to decode.
const script = new Script(text.toString('latin1'), { filename: url.pathname, cachedData: compiled() });
(script.runInThisContext() as Program)(createRequire(url), url.href);
