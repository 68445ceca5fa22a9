import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { Turns } from '../../src/base/turns.ts';

/** One shell in a network namespace for many scripts, so that only external programs cost a process start. */
export class HostileShell {
  static readonly #END = '--- end of script ---';
  readonly #shell: ChildProcessWithoutNullStreams;
  #output = '';
  readonly #turns = new Turns();
  #onOutput: () => void = () => undefined;

  /** @param netns default: that of this process */
  constructor(netns: string | undefined) {
    const argv = [...(netns === undefined ? [] : ['ip', 'netns', 'exec', netns]), 'bash'];
    this.#shell = spawn(argv[0] ?? 'bash', argv.slice(1), { stdio: ['pipe', 'pipe', 'pipe'] });
    this.#shell.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#output += text;
      this.#onOutput();
    });
    this.#shell.stderr.resume();
  }

  /** Runs a script and returns its output. A failing command does not stop it. */
  async run(script: string): Promise<string> {
    return await this.#turns.run(() => this.#ask(script));
  }

  close(): void {
    this.#shell.stdin.end();
  }

  async #ask(script: string): Promise<string> {
    this.#output = '';
    const over = new Promise<void>((resolve) => {
      this.#onOutput = () => {
        if (this.#output.endsWith(`${HostileShell.#END}\n`)) resolve();
      };
    });
    this.#shell.stdin.write(`${script}\necho '${HostileShell.#END}'\n`);
    await over;
    return this.#output.slice(0, -HostileShell.#END.length - 1);
  }
}
