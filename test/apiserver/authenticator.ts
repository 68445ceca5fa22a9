import type { RequestInfo } from './request-info.ts';
import { StatusError } from './status.ts';

export interface AuthOptions {
  /** Maps bearer tokens to users. If any are given, or with requireUser, requests without a user get 401. */
  readonly tokens?: Readonly<Record<string, string>>;
  readonly requireUser?: boolean;
  /** Users without any permissions. */
  readonly powerless?: readonly string[];
  /** Maps users to the actions ("verb resource") that they may not perform. */
  readonly limited?: Readonly<Record<string, readonly string[]>>;
}

/** Authenticates and authorizes users. Tokens and permissions can change while the server runs. */
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

  /** Denies the action to all users, as a missing RBAC rule would. */
  deny(verb: string, resource: string): void {
    this.#denied.add(`${verb} ${resource}`);
  }

  allow(verb: string, resource: string): void {
    this.#denied.delete(`${verb} ${resource}`);
  }

  identify(authorization: string | undefined, certificateName: string | undefined): string {
    const token = /^Bearer (.+)$/.exec(authorization ?? '')?.[1];
    const user = token === undefined ? certificateName : this.#tokens.get(token);
    // Reject an invalid token even if no user is required.
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
