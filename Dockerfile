# The image has the folder that scripts/image/rootfs.sh builds. `make image` builds the same folder, and an archive of the image,
# without Docker; tests run the daemon from it.
#   docker build -t kube-ipvs-proxy:v0.3.0 --build-arg GIT_COMMIT=$(git rev-parse HEAD) \
#     --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) .
# Another architecture is cross-compiled: --platform=linux/arm64 needs no emulation.
ARG NODE_VERSION=24.21.0

FROM --platform=$BUILDPLATFORM node:${NODE_VERSION}-bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ make linux-libc-dev
WORKDIR /src
# Dependencies change less often than the source.
COPY package.json package-lock.json .npmrc ./
# Not `npm ci`: see the Makefile.
RUN npm install --no-save --no-audit --no-fund --loglevel=error && touch node_modules/.stamp
COPY . .
# For --version and kubernetes_build_info: .git is not in the build context.
ARG GIT_COMMIT SOURCE_DATE_EPOCH TARGETARCH
RUN make rootfs ARCH=$TARGETARCH && { [ -d build/image ] || mv build/$TARGETARCH/image build/image; }

FROM scratch
COPY --from=build /src/build/image /
# scripts/image/main.ts reads the labels, too. Arguments: the version, the commit, its time, the URL of the repository.
ARG VERSION=0.3.0 GIT_COMMIT=unknown CREATED=1970-01-01T00:00:00Z IMAGE_SOURCE=
LABEL org.opencontainers.image.title="kube-ipvs-proxy" \
      org.opencontainers.image.description="Service proxy for Kubernetes nodes that programs IPVS or nf_tables" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${GIT_COMMIT}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${IMAGE_SOURCE}"
# Root, because a container's capabilities are effective for root only. After --init-only has set up the node, the daemon
# needs only NET_ADMIN and NET_RAW. The image has no shell, no package manager and no setuid program.
USER 0
# One malloc arena: otherwise, each thread keeps freed memory in its own.
ENV MALLOC_ARENA_MAX=1
# Few objects are short-lived, so small semi-spaces suffice. The heap may use 60% of the container's memory limit; the rest is
# for the program, buffers and garbage (lab/notes/memory.md). Node's CA certificates are in /etc/ssl/cert.pem, which is read on
# demand instead of at every start.
ENTRYPOINT ["/usr/bin/node", "--max-semi-space-size=2", "--max-old-space-size-percentage=60", "--use-openssl-ca", "/usr/lib/kube-ipvs-proxy/kube-ipvs-proxy.mjs"]
