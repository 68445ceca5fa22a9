/** Number of items that a long diff processes between two yields, in far less than a millisecond. */
export const STRIDE = 256;
