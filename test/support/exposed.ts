/** Returns the text of an exposition. */
export async function exposed(metrics: { expose(): Promise<readonly Buffer[]> }): Promise<string> {
  return Buffer.concat(await metrics.expose()).toString();
}
