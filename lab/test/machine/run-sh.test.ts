import { spawn } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';

jest.setTimeout(180_000);

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

// Each of these boots a kernel, or enters namespaces where the machine's own kernel has IPVS.
describe('lab/kernel/run.sh', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'run-sh-'));
  });

  afterAll(async () => {
    await rm(folder, { recursive: true });
  });

  /** `started` is called when the command has written something; then a signal can be sent. */
  function runSh(args: string[], env: NodeJS.ProcessEnv = {}, started?: (kill: (s: NodeJS.Signals) => void) => void) {
    const project = env['PROJECT'] ?? '.';
    const child = spawn(join(project, 'lab/kernel/run.sh'), args, { env: { ...process.env, TMPDIR: folder, ...env } });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stderr.on('data', (data: Buffer) => err.push(data));
    child.stdout.on('data', (data: Buffer) => out.push(data));
    child.stdout.once('data', () => started?.((signal) => child.kill(signal)));
    return new Promise<Ended>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (status) => {
        resolve({ status, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() });
      });
    });
  }

  test('run.sh passes on status, arguments, environment and output, and nothing else', async () => {
    const script = [
      String.raw`printf '%s|' "$#" "$@" "$CI" "$FILTER" "$TEST_NOTE" "$NAMED" "\${UNNAMED-none}" "$PWD"`,
      String.raw`printf 'a\tb\r\nc\0d' ; echo complaint >&2 ; exit 7`,
    ].join('\n');
    const args = ['two words', `it's "quoted" $HOME \\ *`, '', 'new\nline', 'ünïcode'];
    const ended = await runSh(['sh', '-c', script.replace('\\${', '${'), 'sh', ...args], {
      CI: 'yes',
      FILTER: 'a b',
      TEST_NOTE: "it's",
      NAMED: '1',
      UNNAMED: '2',
      KERNEL_ENV: 'NAMED',
    });
    const values = ['5', ...args, 'yes', 'a b', "it's", '1', 'none', process.cwd()];
    expect(ended.stdout).toBe(`${values.join('|')}|a\tb\r\nc\0d`);
    expect(ended.stderr).toMatch(/^test kernel: (native|User-Mode Linux( with nf_tables)?|QEMU), [^\n]*\ncomplaint\n$/);
    expect(ended.status).toBe(7);
  });

  test('run.sh runs in a project, and with a temporary folder, whose paths have a space', async () => {
    const project = join(folder, 'with a space');
    await mkdir(project);
    for (const part of ['lab/kernel', 'scripts/packages.sh']) {
      await cp(part, join(project, part), { recursive: true });
    }
    const ended = await runSh(['sh', '-c', 'pwd; ls -d "$1"', 'sh', project], { PROJECT: project, TMPDIR: project });
    expect(ended).toMatchObject({ status: 0, stdout: `${project}\n${project}\n` });
    // Where the library cannot be preloaded, the loader says so.
    expect(ended.stderr).toMatch(/^test kernel: [^\n]*\n$/);
    await rm(project, { recursive: true });
  });

  test('two concurrent runs of run.sh do not disturb each other', async () => {
    const ends = await Promise.all(
      ['one', 'two'].map((name) =>
        runSh(['sh', '-c', `ip netns add ${name}; touch /tmp/mark-${name}; sleep 2; ip netns list; ls /tmp/mark-*`]),
      ),
    );
    expect(ends.map((ended) => ended.stdout)).toEqual(['one\n/tmp/mark-one\n', 'two\n/tmp/mark-two\n']);
  });

  test('a signal to run.sh ends it and every process that it started', async () => {
    const ended = await runSh(['sh', '-c', 'echo up; sleep 600'], {}, (kill) => {
      kill('SIGTERM');
    });
    expect(ended).toMatchObject({ status: 143, stdout: 'up\n' });
    expect(await readdir(folder)).toEqual([]);
  });

  test('run.sh ends although its command left a process running', async () => {
    const ended = await runSh(['sh', '-c', 'sleep 600 & echo started']);
    expect(ended).toMatchObject({ status: 0, stdout: 'started\n' });
  });

  test('run.sh kills a command that takes too long, and exits with a distinct status', async () => {
    const ended = await runSh(['sleep', '600'], { KERNEL_TIMEOUT: '4' });
    expect(ended.status).toBe(124);
    expect(ended.stderr).toContain('killed after KERNEL_TIMEOUT=4 seconds');
    expect(await readdir(folder)).toEqual([]);
  });

  test.each([
    [{ KERNEL: 'none' }, 'KERNEL is native, uml, qemu or uml-nft, not: none'],
    [{ TEST_IPTABLES: 'new' }, 'TEST_IPTABLES is nft or legacy, not: new'],
    [{ KERNEL_TIMEOUT: 'long' }, 'KERNEL_TIMEOUT is not a number of seconds: long'],
    [{ KERNEL_PATIENCE: 'much' }, 'KERNEL_PATIENCE is not a number: much'],
    [{ KERNEL_MEMORY: 'lots' }, 'KERNEL_MEMORY is not a size like 3G or 512M: lots'],
  ])('a wrong setting is said in one sentence: %o', async (env, sentence) => {
    expect(await runSh(['true'], env)).toEqual({ status: 125, stdout: '', stderr: `test kernel: ${sentence}\n` });
  });

  describe('a kernel that dies at boot', () => {
    let stubs: string;
    const PANIC = 'Kernel panic - not syncing: the registers are of another CPU';
    const DIES = `for n in $(seq 50); do echo "trace $n"; done; echo "${PANIC}"; exit 134`;
    /** Takes the job from the kernel's command line and does what a kernel would do with it. */
    const SERVES = `
      while [ "$1" != -append ]; do shift; done
      job=\${2##* JOB=\\"}
      job=\${job%%\\"*}
      . "$job/environment"
      : >"$job/started"
      (. "$job/command") >&7 2>&8
      echo $? >"$job/status"
    `;
    const said = (kernel: string, words = PANIC): string =>
      `it ended before the command had begun: its last words are "${words}", its console is in ${process.cwd()}/build/kernel/${kernel}-console.txt`;

    beforeAll(async () => {
      stubs = join(folder, 'stubs');
      const cached = join(stubs, 'kube-ipvs-proxy/linux-9-stub');
      await mkdir(join(cached, 'lib/modules/9-stub'), { recursive: true });
      // No namespaces: this machine's own kernel will not do. All packages are installed; no modules are needed.
      await Promise.all([
        stub('unshare', 'exit 1'),
        stub('dpkg-query', 'echo installed'),
        stub('modprobe', ':'),
        stub('sudo', 'exec "$@"'),
        stub('linux.uml', DIES),
        stub('kube-ipvs-proxy/linux-9-stub/busybox', 'cat'),
      ]);
    });

    afterAll(async () => {
      await rm(stubs, { recursive: true });
    });

    const stub = (name: string, script: string): Promise<void> =>
      writeFile(join(stubs, name), `#!/bin/bash\n${script}\n`, { mode: 0o755 });

    const runStubbed = (args: string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> =>
      runSh(args, { PATH: `${stubs}:${process.env['PATH']}`, XDG_CACHE_HOME: stubs, KERNEL: '', ...env });

    test('if a kernel dies at boot, run.sh takes the next one and keeps the console output of the first', async () => {
      await stub('qemu-system-x86_64', SERVES);
      const { status, stdout, stderr } = await runStubbed([
        'sh',
        '-c',
        'echo "$KERNEL_USED"; echo complaint >&2; exit 7',
      ]);
      expect({ status, stdout, lines: stderr.split('\n') }).toEqual({
        status: 7,
        stdout: 'qemu\n',
        lines: [
          expect.stringMatching(/^test kernel: User-Mode Linux, 3G memory, on a processor with(out)? AMX$/),
          `test kernel: User-Mode Linux: ${said('uml')}; trying the next`,
          'test kernel: QEMU, 3G memory',
          'complaint',
          '',
        ],
      });
      expect(await readFile('build/kernel/uml-console.txt', 'utf8')).toMatch(/^trace 1\ntrace 2\n/);
    });

    test('if the only selected kernel dies at boot, run.sh fails with one sentence', async () => {
      const ended = await runStubbed(['true'], { KERNEL: 'uml' });
      const [, sentence, ...more] = ended.stderr.split('\n');
      expect(sentence).toBe(
        `test kernel: KERNEL=uml is not possible here: ${said('uml')}; unset KERNEL to have the others tried`,
      );
      expect({ ...ended, stderr: more }).toEqual({ status: 125, stdout: '', stderr: [''] });
    });

    test('if no kernel boots, run.sh fails with one sentence that gives the reason for each', async () => {
      await stub('qemu-system-x86_64', 'echo "qemu-system-x86_64: cannot set up guest memory" >&2; exit 1');
      const { status, stdout, stderr } = await runStubbed(['true']);
      const qemu = said('qemu', 'qemu-system-x86_64: cannot set up guest memory');
      expect(stderr.trim().split('\n').at(-1)).toMatch(
        new RegExp(`^test kernel: no kernel with IPVS is to be had \\(this machine's own kernel: [^;]+; `),
      );
      expect(stderr).toContain(`; User-Mode Linux: ${said('uml')}; QEMU: ${qemu}); try as root on a machine where `);
      expect({ status, stdout }).toEqual({ status: 125, stdout: '' });
      expect(await readdir(folder)).toEqual(['stubs']);
    });

    test.each([
      ['qemu', 'its packages', 'dpkg-query', ':', 'its packages cannot be installed: E: no such package'],
      ['uml-nft', 'its packages', 'dpkg-query', ':', 'its packages cannot be installed: E: no such package'],
      [
        'uml-nft',
        'a build',
        'dpkg-query',
        'if [ "$1" = --show ]; then exit 1; fi; echo installed',
        'it cannot be built, see above',
      ],
      [
        'qemu',
        'its kernel',
        'apt-cache',
        ':',
        'its kernel cannot be fetched: apt knows no package linux-image-amd64, run as root: apt-get update',
      ],
    ])('KERNEL=%s without %s: one sentence', async (kernel, _case, program, script, why) => {
      const bare = join(stubs, 'bare');
      await mkdir(bare);
      await Promise.all([
        stub(`bare/${program}`, script),
        stub('bare/apt-get', 'echo "E: no such package" >&2; exit 100'),
      ]);
      const ended = await runStubbed(['true'], {
        KERNEL: kernel,
        XDG_CACHE_HOME: bare,
        PATH: `${bare}:${stubs}:${process.env['PATH']}`,
      });
      await rm(bare, { recursive: true });
      expect(ended.stderr.trim().split('\n').at(-1)).toBe(
        `test kernel: KERNEL=${kernel} is not possible here: ${why}; unset KERNEL to have the others tried`,
      );
      expect({ ...ended, stderr: '' }).toEqual({ status: 125, stdout: '', stderr: '' });
    });
  });
});
