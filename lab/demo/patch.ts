// Runs in the node's namespace: changes an object through the API. Arguments: URL of the object, JSON merge patch.
const [url = '', body = ''] = process.argv.slice(2);
const headers = { 'Content-Type': 'application/merge-patch+json', Accept: 'application/json' };
const { ok, status } = await fetch(url, { method: 'PATCH', headers, body });
if (!ok) throw new Error(`status ${status}`);
