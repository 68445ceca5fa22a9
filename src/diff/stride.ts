/** Steps of a long diff are so many items: few enough to take far less than a millisecond. */
export const STRIDE = 256;
