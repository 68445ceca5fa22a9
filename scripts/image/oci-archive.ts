import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { constants, gzipSync } from 'node:zlib';
import type { ImageSettings } from './dockerfile.ts';
import { tar } from './tar.ts';

/** An image of one architecture. */
export interface Platform {
  /** As Go calls it: `amd64` or `arm64`. */
  readonly architecture: string;
  /** The root file system. */
  readonly folder: string;
}

export interface OciImage {
  /** Full name with a tag, such as `docker.io/library/kube-ipvs-proxy:v0.3.0`. */
  readonly name: string;
  readonly settings: ImageSettings;
  /** In seconds since 1970. */
  readonly created: number;
  readonly platforms: readonly Platform[];
}

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

const OCI = 'application/vnd.oci.image';
const PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * Packs an image into an archive with OCI's image layout, which `ctr images import`, `docker load`, skopeo and `kind load
 * image-archive` read. The same root file systems give the same bytes. The archive appears at `out` only when it is
 * complete.
 *
 * @returns the digest by which a registry knows the image
 */
export function writeOciArchive(out: string, image: OciImage): string {
  mkdirSync(path.dirname(out), { recursive: true });
  const work = mkdtempSync(`${out}.`);
  try {
    const layout = new Layout(path.join(work, 'layout'));
    const manifests = image.platforms.map((platform) => ({
      ...layout.addPlatform(image, platform, path.join(work, 'layer.tar')),
      platform: { architecture: platform.architecture, os: 'linux' },
    }));
    const [only] = manifests;
    // An index of one image would have a digest that docker and registries do not show.
    const top =
      only !== undefined && manifests.length === 1
        ? only
        : layout.addJson(`${OCI}.index.v1+json`, { schemaVersion: 2, mediaType: `${OCI}.index.v1+json`, manifests });
    layout.finish(image.name, top);
    const archive = path.join(work, 'archive.tar');
    tar(archive, layout.folder, ['--mode=u=rwX,go=rX', 'oci-layout', 'index.json', 'blobs']);
    renameSync(archive, out);
    return top.digest;
  } finally {
    rmSync(work, { recursive: true });
  }
}

/** A folder in OCI's image layout. */
class Layout {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
    mkdirSync(path.join(folder, 'blobs/sha256'), { recursive: true });
  }

  addPlatform({ settings, created }: OciImage, { architecture, folder }: Platform, scratch: string): Descriptor {
    tar(scratch, folder, ['.']);
    const plain = readFileSync(scratch);
    const layer = this.#add(`${OCI}.layer.v1.tar+gzip`, gzipSync(plain, { level: constants.Z_BEST_COMPRESSION }));
    const config = this.addJson(`${OCI}.config.v1+json`, {
      created: new Date(created * 1000).toISOString(),
      architecture,
      os: 'linux',
      config: {
        User: settings.user,
        Env: [PATH, ...settings.env],
        Entrypoint: settings.entrypoint,
        Labels: settings.labels,
      },
      rootfs: { type: 'layers', diff_ids: [digestOf(plain)] },
      history: [{ created_by: 'scripts/image/rootfs.sh' }],
    });
    const mediaType = `${OCI}.manifest.v1+json`;
    return this.addJson(mediaType, {
      schemaVersion: 2,
      mediaType,
      config,
      layers: [layer],
      annotations: settings.labels,
    });
  }

  addJson(mediaType: string, value: unknown): Descriptor {
    return this.#add(mediaType, Buffer.from(JSON.stringify(value)));
  }

  finish(name: string, top: Descriptor): void {
    const annotations = {
      'io.containerd.image.name': name,
      'org.opencontainers.image.ref.name': name.replace(/.*:/, ''),
    };
    const index = { schemaVersion: 2, mediaType: `${OCI}.index.v1+json`, manifests: [{ ...top, annotations }] };
    writeFileSync(path.join(this.folder, 'index.json'), JSON.stringify(index));
    writeFileSync(path.join(this.folder, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));
  }

  #add(mediaType: string, content: Buffer): Descriptor {
    const digest = digestOf(content);
    writeFileSync(path.join(this.folder, 'blobs', digest.replace(':', '/')), content);
    return { mediaType, digest, size: content.length };
  }
}

function digestOf(content: Buffer): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}
