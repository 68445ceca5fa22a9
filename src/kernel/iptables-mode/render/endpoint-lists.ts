import { formatHostPort } from '../../../base/ip.ts';
import type { Endpoint } from '../../../state/real-server.ts';

/** Numbers lists of endpoints, so that equal lists have the same number. Many addresses may share a list, whose text is made once. */
export class EndpointLists {
  readonly #byList = new Map<readonly Endpoint[], number>();
  readonly #byText = new Map<string, number>();

  numberOf(list: readonly Endpoint[]): number {
    const known = this.#byList.get(list);
    if (known !== undefined) return known;
    const text = list.map(endpointText).join(' ');
    const number = this.#byText.get(text) ?? this.#byText.size;
    this.#byText.set(text, number);
    this.#byList.set(list, number);
    return number;
  }
}

export function endpointText({ address, port }: Endpoint): string {
  return formatHostPort(address, port);
}
