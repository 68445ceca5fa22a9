import https from 'node:https';

/** Requests of an administrator to an API server, over connections that stay open. */
export class Api {
  readonly #server: string;
  readonly #agent: https.Agent;

  constructor(
    server: string,
    { authority, certificate, key }: Readonly<Record<'authority' | 'certificate' | 'key', string>>,
  ) {
    const pem = (text: string): Buffer => Buffer.from(text, 'base64');
    this.#server = server;
    this.#agent = new https.Agent({
      ca: pem(authority),
      cert: pem(certificate),
      key: pem(key),
      keepAlive: true,
      maxSockets: 4,
    });
  }

  /** Returns the object in the response. Rejects if the status is not one of success. */
  async send(method: 'POST' | 'PUT', path: string, object: object): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const headers = { 'Content-Type': 'application/json' };
    const request = https.request(this.#server + path, { method, headers, agent: this.#agent }, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += String(chunk)));
      response.on('error', reject);
      response.on('end', () => {
        const status = response.statusCode ?? 0;
        if (status < 300) resolve(JSON.parse(text));
        else reject(new Error(`${method} ${path}: status ${status}: ${text}`));
      });
    });
    request.on('error', reject);
    request.end(JSON.stringify(object));
    return promise;
  }
}
