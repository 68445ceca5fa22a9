/** A listener that listens. */
export interface OpenListener {
  /** Frees the port at once. */
  close(): void;
}
