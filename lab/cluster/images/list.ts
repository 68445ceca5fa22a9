import path from 'node:path';
import type { Image } from './image.ts';
import { namesOf } from './upstream-images.ts';

/** What the images are made of. */
export interface Sources {
  /** Folder of the built programs of the Kubernetes version: agnhost, kube-proxy, coredns, ... */
  readonly bin: string;
  /** Folder of agnhost's source, which has the certificate that it serves. */
  readonly agnhost: string;
  /** The Debian root that debian-root.sh built. */
  readonly debian: string;
  readonly pause: string;
  /** Archive of kube-ipvs-proxy's image, from `make image`. */
  readonly ours: string;
  readonly kubernetesVersion: string;
  readonly corednsVersion: string;
  /** Names of upstream's test images by identifier. */
  readonly upstream: ReadonlyMap<string, string>;
}

/** The images that are packed for the test cluster, by the name of the archive that holds them. */
export function clusterImages(sources: Sources): Readonly<Record<string, readonly Image[]>> {
  const { bin, upstream } = sources;
  return {
    pause: [{ names: pauseNames(upstream), layers: [{ files: { '/pause': sources.pause } }], entrypoint: ['/pause'] }],
    coredns: [
      {
        names: [`registry.k8s.io/coredns/coredns:v${sources.corednsVersion}`],
        layers: [{ files: { '/coredns': path.join(bin, 'coredns') } }],
        entrypoint: ['/coredns'],
      },
    ],
    regression: [regressionImage(sources)],
    debian: debianImages(sources),
  };
}

/** Releases of containerd and of the specs name different versions of this image. */
function pauseNames(upstream: ReadonlyMap<string, string>): string[] {
  return [...new Set([...namesOf(upstream, ['Pause']), 'registry.k8s.io/pause:3.10'])];
}

/** A server that provokes a reset of its connections, for a spec of conntrack. */
function regressionImage({ bin, upstream }: Sources): Image {
  const program = 'regression-issue-74839';
  return {
    names: namesOf(upstream, ['RegressionIssue74839']),
    layers: [{ files: { [`/${program}`]: path.join(bin, program) } }],
    entrypoint: [`/${program}`],
  };
}

/** All images with a Debian root. They are in one archive, so that nodes read that layer once. */
function debianImages({ bin, agnhost, debian, upstream, kubernetesVersion }: Sources): Image[] {
  const root = { folder: debian };
  const agnhostLayer = {
    files: {
      '/agnhost': path.join(bin, 'agnhost'),
      // A spec runs it as the name server of a Pod.
      '/coredns': path.join(bin, 'coredns'),
      '/etc/wgetrc': path.join(import.meta.dirname, 'wgetrc'),
      '/localhost.crt': path.join(agnhost, 'porter/localhost.crt'),
      '/localhost.key': path.join(agnhost, 'porter/localhost.key'),
    },
  };
  // Since Kubernetes 1.35, specs also use an earlier version.
  const agnhostIds = upstream.has('AgnhostPrev') ? ['Agnhost', 'AgnhostPrev'] : ['Agnhost'];
  // Its name since Kubernetes 1.37, and before.
  const dnsTesting = upstream.has('GlibcDnsTesting') ? 'GlibcDnsTesting' : 'JessieDnsutils';
  const kubeProxyLayer = { files: { '/usr/local/bin/kube-proxy': path.join(bin, 'kube-proxy') } };
  return [
    {
      names: namesOf(upstream, agnhostIds),
      layers: [root, agnhostLayer],
      entrypoint: ['/agnhost'],
      cmd: ['pause'],
    },
    // The specs need a web server that listens on port 80.
    {
      names: namesOf(upstream, ['Nginx', 'NginxNew']),
      layers: [root, agnhostLayer],
      entrypoint: ['/agnhost'],
      cmd: ['test-webserver'],
    },
    // The specs need programs of these images, which they name in the Pod's command.
    { names: namesOf(upstream, ['BusyBox', dnsTesting, 'DistrolessIptables']), layers: [root], cmd: ['sh'] },
    { names: [`registry.k8s.io/kube-proxy:v${kubernetesVersion}`], layers: [root, kubeProxyLayer] },
  ];
}
