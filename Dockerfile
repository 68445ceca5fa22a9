# The image is the folder that scripts/image-rootfs.sh makes: `make image` makes the same one without Docker, and the tests run the
# daemon from it.
#   docker build -t kube-ipvs-proxy:v0.1.0 .
ARG NODE_VERSION=24.21.0

FROM node:${NODE_VERSION}-bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ make linux-libc-dev
WORKDIR /src
# What is installed changes less often than the source.
COPY package.json package-lock.json .npmrc ./
# Not `npm ci`: see the Makefile.
RUN npm install --no-save --no-audit --no-fund --loglevel=error && touch node_modules/.stamp
COPY . .
RUN make build/native/netlink_socket.node build/kube-ipvs-proxy.cache && scripts/image-rootfs.sh build/image

FROM scratch
COPY --from=build /src/build/image /
# Root, because capabilities of a container count for root only; NET_ADMIN and NET_RAW are all that it needs of them once the node is
# set up (--init-only). There is no shell, no package manager and nothing setuid here.
USER 0
# Short-lived objects are few: the space for them need not grow to 2 x 16 MiB. The heap may have 60% of the container's memory limit; what
# is left is for the program itself, buffers and what a collection has yet to find (docs/memory.md). Authorities that Node.js brings
# along are in /etc/ssl/cert.pem, to be read when one is needed and not by every start.
ENTRYPOINT ["/usr/bin/node", "--max-semi-space-size=2", "--max-old-space-size-percentage=60", "--use-openssl-ca", "/usr/lib/kube-ipvs-proxy/kube-ipvs-proxy.mjs"]
