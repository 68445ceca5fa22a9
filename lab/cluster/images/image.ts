/** Files of one layer, either a folder that becomes `/`, or single files by their absolute path in the image. */
export type Layer = { readonly folder: string } | { readonly files: Readonly<Record<string, string>> };

/** A container image: its layers from the bottom to the top, and what it runs. */
export interface Image {
  /** Full names, such as `registry.k8s.io/pause:3.10`. */
  readonly names: readonly string[];
  readonly layers: readonly Layer[];
  readonly entrypoint?: readonly string[];
  /** Arguments of the entrypoint if the Pod has none. */
  readonly cmd?: readonly string[];
}
