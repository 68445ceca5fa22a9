/** A reply of a daemon that may be of an older version: every field may be missing. */
export type Older<T> = T extends readonly (infer Item)[]
  ? readonly Older<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]?: Older<T[Key]> }
    : T;
