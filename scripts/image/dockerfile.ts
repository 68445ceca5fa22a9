/** What a Dockerfile sets beside files. */
export interface ImageSettings {
  readonly entrypoint: readonly string[];
  readonly user: string;
  /** As NAME=VALUE. */
  readonly env: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

/**
 * Reads the settings of a Dockerfile: the last ENTRYPOINT in its JSON form, USER, ENV and LABEL.
 *
 * @param values values of the build arguments that labels name
 */
export function settingsOf(dockerfile: string, values: Readonly<Record<string, string>>): ImageSettings {
  const entrypoint = /^ENTRYPOINT (\[.*\])$/m.exec(dockerfile)?.[1];
  if (entrypoint === undefined) throw new Error('the Dockerfile has no ENTRYPOINT in JSON form');
  const user = /^USER (\S+)$/m.exec(dockerfile)?.[1] ?? '';
  const labels = Array.from(
    dockerfile.matchAll(/^(?:LABEL)? +([\w.-]+)="(.*)"(?: \\)?$/gm),
    ([, name = '', text = '']) => [
      name,
      text.replaceAll(/\$\{?(\w+)\}?/g, (_, argument: string) => {
        const value = values[argument];
        if (value === undefined) throw new Error(`the label ${name} names an unknown argument: ${argument}`);
        return value;
      }),
    ],
  );
  return {
    entrypoint: JSON.parse(entrypoint) as string[],
    user,
    env: Array.from(dockerfile.matchAll(/^ENV (\w+=\S*)$/gm), ([, variable = '']) => variable),
    labels: Object.fromEntries(labels) as Record<string, string>,
  };
}
