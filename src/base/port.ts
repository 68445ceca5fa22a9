/** A port number from 1 to 65535. */
export type Port = number & { readonly __brand: 'Port' };

export function isPort(value: unknown): value is Port {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 65_535;
}

/** Returns undefined if the value is not an integer from 1 to 65535. */
export function toPort(value: unknown): Port | undefined {
  return isPort(value) ? value : undefined;
}
