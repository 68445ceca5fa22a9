const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  const found = `${process.execPath} is ${process.versions.node}`;
  process.stderr.write(
    `the tests need Node.js 22.19 or newer, but ${found}: run them by make, which finds or installs one\n`,
  );
  process.exit(1);
}

// Three projects: `host` needs nothing but Node (and, for the addon, loopback netlink); `kernel` and `traffic` need a kernel
// with IPVS and the right to make network namespaces, and are started by lab/kernel/run.sh, never directly.
const shared = {
  testEnvironment: 'node',
  setupFilesAfterEnv: ['<rootDir>/test/support/time-limit.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '\\.ts$': ['@swc/jest', { jsc: { parser: { syntax: 'typescript' }, target: 'es2024' }, module: { type: 'es6' } }],
  },
};

/** @type {import('jest').Config} */
const config = {
  // By default, one processor of two would stand idle.
  maxWorkers: '100%',
  // Each file leaves something behind, and garbage collections that tests ask for become slow in a large heap.
  workerIdleMemoryLimit: '512MB',
  projects: [
    {
      ...shared,
      displayName: 'host',
      testMatch: [
        '<rootDir>/test/{unit,golden,api,property,host}/**/*.test.ts',
        '<rootDir>/lab/test/!(kernel)/**/*.test.ts',
      ],
    },
    {
      ...shared,
      displayName: 'kernel',
      testMatch: ['<rootDir>/test/{kernel,contract}/**/*.test.ts', '<rootDir>/lab/test/kernel/**/*.test.ts'],
    },
    {
      ...shared,
      displayName: 'traffic',
      testMatch: ['<rootDir>/test/traffic/**/*.test.ts'],
    },
  ],
};

export { config as default };
