# The image is the folder built by scripts/image-rootfs.sh. `make image` builds the same folder without Docker, and tests run
# the daemon from it.
#   docker build -t kube-ipvs-proxy:v0.1.0 --build-arg GIT_COMMIT=$(git rev-parse HEAD) \
#     --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) .
ARG NODE_VERSION=24.21.0

FROM node:${NODE_VERSION}-bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ make linux-libc-dev
WORKDIR /src
# Dependencies change less often than the source.
COPY package.json package-lock.json .npmrc ./
# Not `npm ci`: see the Makefile.
RUN npm install --no-save --no-audit --no-fund --loglevel=error && touch node_modules/.stamp
COPY . .
# For --version and kubernetes_build_info: .git is not in the build context.
ARG GIT_COMMIT SOURCE_DATE_EPOCH
RUN make build/native/netlink_socket.node build/kube-ipvs-proxy.mjs && scripts/image-rootfs.sh build/image

FROM scratch
COPY --from=build /src/build/image /
# Root, because a container's capabilities are effective for root only. After --init-only has set up the node, the daemon
# needs only NET_ADMIN and NET_RAW. The image has no shell, no package manager and no setuid program.
USER 0
# Few objects are short-lived, so small semi-spaces suffice. The heap may use 60% of the container's memory limit; the rest is
# for the program, buffers and garbage (docs/memory.md). Node's CA certificates are in /etc/ssl/cert.pem, which is read on
# demand instead of at every start.
ENTRYPOINT ["/usr/bin/node", "--max-semi-space-size=2", "--max-old-space-size-percentage=60", "--use-openssl-ca", "/usr/lib/kube-ipvs-proxy/kube-ipvs-proxy.mjs"]
