// Two projects: `host` needs nothing but Node (and, for the addon, loopback netlink); `kernel` needs a kernel with
// IPVS and the right to make network namespaces, and is started by test/kernel/run.sh, never directly.
const shared = {
  testEnvironment: 'node',
  setupFilesAfterEnv: ['<rootDir>/test/support/retry.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '\\.ts$': ['@swc/jest', { jsc: { parser: { syntax: 'typescript' }, target: 'es2024' }, module: { type: 'es6' } }],
  },
};

/** @type {import('jest').Config} */
const config = {
  projects: [
    {
      ...shared,
      displayName: 'host',
      testMatch: ['<rootDir>/test/{unit,golden,api,property,host}/**/*.test.ts'],
    },
    {
      ...shared,
      displayName: 'kernel',
      testMatch: ['<rootDir>/test/{kernel,contract,traffic}/**/*.test.ts'],
    },
  ],
};

export { config as default };
