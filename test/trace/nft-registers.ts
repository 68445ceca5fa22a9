const REGISTER = 16;
const SMALL_REGISTER = 4;
/** linux/netfilter/nf_tables.h: enum nft_registers. */
const NFT_REG_1 = 1;
const NFT_REG32_00 = 8;

/** The registers of nf_tables: 4 of 16 bytes, which are also 16 of 4 bytes. */
export class NftRegisters {
  readonly #bytes = new Uint8Array(4 * REGISTER);

  clear(): void {
    this.#bytes.fill(0);
  }

  /** The rest of the last 4 bytes becomes 0. */
  store(register: number, value: Uint8Array): void {
    const at = offsetOf(register);
    this.#bytes.fill(0, at, at + Math.ceil(value.length / SMALL_REGISTER) * SMALL_REGISTER);
    this.#bytes.set(value, at);
  }

  load(register: number, length: number): Uint8Array {
    const at = offsetOf(register);
    return this.#bytes.slice(at, at + length);
  }
}

function offsetOf(register: number): number {
  return register >= NFT_REG32_00 ? (register - NFT_REG32_00) * SMALL_REGISTER : (register - NFT_REG_1) * REGISTER;
}
