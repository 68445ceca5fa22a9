/** A program that is built from Go modules. */
export interface Program {
  readonly name: string;
  /** Folder of the go.mod that it is built in, in the cache's folder of modules; '' is that of Kubernetes itself. */
  readonly folder: string;
  /** The module that the folder's go.mod must require; undefined if it is a part of Kubernetes or required by it. */
  readonly module?: string;
  readonly package: string;
  /** Text of main.go, for a module that has no program. */
  readonly main?: string;
  /** Build tags. */
  readonly tags?: readonly string[];
  /** Built by `go test -c`. */
  readonly test?: true;
}

export const ETCD_VERSION = '3.6.6';
export const COREDNS_VERSION = '1.12.1';
const CONTAINERD_VERSION = '2.2.9';
export const METALLB_VERSION = '0.15.2';
export const KUBE_ROUTER_VERSION = '2.1.0';

const ETCD_MAIN = `package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
`;

const KUBERNETES = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'kubectl', 'kube-proxy'];

/** kubelet 1.36 and newer need containerd 2; Debian has 1.6. */
const CONTAINERD = ['containerd', 'containerd-shim-runc-v2', 'ctr'];

/** Programs of images that the e2e tests run. */
const TEST_IMAGES = ['agnhost', 'regression-issue-74839'];

const METALLB = ['controller', 'speaker'];

/** All programs, by name. */
export const PROGRAMS: readonly Program[] = [
  ...KUBERNETES.map((name) => ({ name, folder: '', package: `k8s.io/kubernetes/cmd/${name}` })),
  {
    name: 'etcd',
    folder: 'etcd',
    module: `go.etcd.io/etcd/server/v3@v${ETCD_VERSION}`,
    package: '.',
    main: ETCD_MAIN,
  },
  {
    name: 'coredns',
    folder: 'coredns',
    module: `github.com/coredns/coredns@v${COREDNS_VERSION}`,
    package: 'github.com/coredns/coredns',
  },
  ...CONTAINERD.map((name) => ({
    name,
    folder: 'containerd',
    module: `github.com/containerd/containerd/v2@v${CONTAINERD_VERSION}`,
    package: `github.com/containerd/containerd/v2/cmd/${name}`,
    // No snapshotter but that of overlayfs.
    tags: ['no_btrfs', 'no_devmapper', 'no_zfs', 'no_aufs'],
  })),
  ...TEST_IMAGES.map((name) => ({ name, folder: '', package: `k8s.io/kubernetes/test/images/${name}` })),
  ...METALLB.map((name) => ({
    name: `metallb-${name}`,
    folder: 'metallb',
    module: `go.universe.tf/metallb@v${METALLB_VERSION}`,
    package: `go.universe.tf/metallb/${name}`,
  })),
  {
    name: 'kube-router',
    folder: 'kube-router',
    module: `github.com/cloudnativelabs/kube-router/v2@v${KUBE_ROUTER_VERSION}`,
    package: 'github.com/cloudnativelabs/kube-router/v2/cmd/kube-router',
  },
  // In the version that the e2e tests are compiled with.
  { name: 'ginkgo', folder: '', package: 'github.com/onsi/ginkgo/v2/ginkgo' },
  { name: 'e2e.test', folder: '', package: 'k8s.io/kubernetes/test/e2e', test: true },
];

/** What a cluster and its images need. */
export const CLUSTER_PROGRAMS: readonly string[] = [...KUBERNETES, 'etcd', 'coredns', ...CONTAINERD, ...TEST_IMAGES];

/** What runs upstream's specs. */
export const SPEC_PROGRAMS: readonly string[] = ['ginkgo', 'e2e.test'];

/** The modules that Kubernetes replaces by its folder staging/, from the text of its go.mod. */
export function stagedModules(goMod: string): readonly string[] {
  return Array.from(goMod.matchAll(/^\s*(?:replace )?(k8s\.io\/\S+) => \.\/staging\//gm), ([, name = '']) => name);
}

/** The version of the staged modules that belongs to a version of Kubernetes: 1.35.4 has 0.35.4. */
export function stagedVersion(kubernetes: string): string {
  return kubernetes.replace(/^1\./, '0.');
}

/** Flags of the linker: no symbols, and the version that the programs report. */
export function linkerFlags(kubernetes: string): string {
  const [major, minor] = kubernetes.split('.');
  const values = {
    'k8s.io/component-base/version.gitVersion': `v${kubernetes}`,
    'k8s.io/component-base/version.gitMajor': major,
    'k8s.io/component-base/version.gitMinor': minor,
    'k8s.io/client-go/pkg/version.gitVersion': `v${kubernetes}`,
  };
  return ['-s', '-w', ...Object.entries(values).map(([name, value]) => `-X ${name}=${value}`)].join(' ');
}
