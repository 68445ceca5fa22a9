import { errorCode, errorText } from '../../base/text/error-text.ts';

/** Matches the response of Go's HTTPS server, and of nginx, to a plain HTTP request. */
const PLAIN_TO_TLS = /HTTP request (was sent )?to (an )?HTTPS (server|port)/i;

/** OpenSSL's errors for a peer that does not speak TLS. */
const NO_TLS = /wrong version number|packet length too long|http request|unknown protocol|record layer failure/i;

const WRITE_HTTPS = 'write https:// before its address (server in the kubeconfig, or --master)';

function useHttps(symptom: string): string {
  return `${symptom}: the server probably expects HTTPS, but the URL says http; ${WRITE_HTTPS}`;
}

/** Returns an error text if an HTTP response says that the server expects TLS. */
export function wantsTls(code: number, body: string): string | undefined {
  return code === 400 && PLAIN_TO_TLS.test(body) ? useHttps('plain HTTP was refused') : undefined;
}

/** Returns the text of a connection error. If Node's text is misleading, replaces it with advice. */
export function connectionText(error: unknown, url: URL): string {
  const code = errorCode(error) ?? '';
  const text = errorText(error);
  if (url.protocol === 'http:') {
    // A server that is shutting down causes the same error, hence the "if" in the text.
    if (code === 'ECONNRESET')
      return `the server closed the connection without a response: if it expects HTTPS, ${WRITE_HTTPS}`;
    if (code.startsWith('HPE_')) return useHttps('the response is not HTTP');
    return text;
  }
  const noTls = (code === 'EPROTO' || code.startsWith('ERR_SSL_')) && NO_TLS.test(text);
  return noTls
    ? 'the response is not TLS: the server probably expects HTTP, but the URL says https; check the port, or write http:// before its address (server in the kubeconfig, or --master)'
    : text;
}
