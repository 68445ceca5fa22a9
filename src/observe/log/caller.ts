/** Returns "folder/file.ts:line" of each log call by its "line:column" in the bundle. Set by scripts/bundle.ts. */
declare const __callers: (() => Readonly<Record<string, string>>) | undefined;

let table: Readonly<Record<string, string>> | undefined;

/** Returns "folder/file.ts:line" of the statement that called the function `callee`. Costs about 25 µs. */
export function callerOf(callee: (...args: never[]) => unknown): string {
  const site = callSite(callee);
  if (site === undefined) return 'unknown:0';
  const line = site.getLineNumber() ?? 0;
  table ??= typeof __callers === 'undefined' ? {} : __callers();
  const path = (site.getFileName() ?? 'unknown').split('/').slice(-2).join('/');
  return table[`${line}:${site.getColumnNumber() ?? 0}`] ?? `${path}:${line}`;
}

/** Returns one stack frame as an object, because formatting a stack as text would cost more. */
function callSite(callee: (...args: never[]) => unknown): NodeJS.CallSite | undefined {
  // Restored below, never called.
  // eslint-disable-next-line @typescript-eslint/unbound-method
  const { stackTraceLimit, prepareStackTrace } = Error;
  try {
    Error.stackTraceLimit = 1;
    Error.prepareStackTrace = (_error, sites) => sites;
    const frames: { stack?: NodeJS.CallSite[] } = {};
    Error.captureStackTrace(frames, callee);
    return frames.stack?.[0];
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
    Error.prepareStackTrace = prepareStackTrace;
  }
}
