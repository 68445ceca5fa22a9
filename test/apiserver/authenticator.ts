import type { RequestInfo } from './request-info.ts';
import { StatusError } from './status.ts';

export interface AuthOptions {
  /** Bearer token -> user. With any, or with requireUser, a request without a user is refused with 401. */
  readonly tokens?: Readonly<Record<string, string>>;
  readonly requireUser?: boolean;
  /** Users without any permission. */
  readonly powerless?: readonly string[];
  /** User -> "verb resource" that this user is not allowed. */
  readonly limited?: Readonly<Record<string, readonly string[]>>;
}

/** Who may do what. Tokens and permissions change while the server runs. */
export class Authenticator {
  readonly #tokens: Map<string, string>;
  readonly #requireUser: boolean;
  readonly #denied = new Set<string>();
  readonly #powerless: ReadonlySet<string>;
  readonly #limited: Readonly<Record<string, readonly string[]>>;

  constructor({ tokens = {}, requireUser, powerless = [], limited = {} }: AuthOptions) {
    this.#powerless = new Set(powerless);
    this.#limited = limited;
    this.#tokens = new Map(Object.entries(tokens));
    this.#requireUser = requireUser ?? this.#tokens.size > 0;
  }

  setTokens(tokens: Readonly<Record<string, string>>): void {
    this.#tokens.clear();
    for (const [token, user] of Object.entries(tokens)) this.#tokens.set(token, user);
  }

  /** Like a missing rule in RBAC. */
  deny(verb: string, resource: string): void {
    this.#denied.add(`${verb} ${resource}`);
  }

  allow(verb: string, resource: string): void {
    this.#denied.delete(`${verb} ${resource}`);
  }

  identify(authorization: string | undefined, certificateName: string | undefined): string {
    const token = /^Bearer (.+)$/.exec(authorization ?? '')?.[1];
    const user = token === undefined ? certificateName : this.#tokens.get(token);
    // A token that is wrong is refused even where none is needed.
    if (user === undefined && (this.#requireUser || token !== undefined)) {
      throw new StatusError(401, 'Unauthorized', 'Unauthorized');
    }
    return user ?? 'system:anonymous';
  }

  authorize(user: string, { verb, type }: RequestInfo): void {
    const action = `${verb} ${type.plural}`;
    const limited = this.#powerless.has(user) || this.#limited[user]?.includes(action) === true;
    if (!limited && !this.#denied.has(action)) return;
    const group = type.apiVersion.includes('/') ? type.apiVersion.split('/')[0] : '';
    throw new StatusError(
      403,
      'Forbidden',
      `${type.plural} is forbidden: User "${user}" cannot ${verb} resource "${type.plural}" in API group "${group}" at the cluster scope`,
    );
  }
}
