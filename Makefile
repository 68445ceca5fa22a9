# The door to this project. `make help` lists what is behind it.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The runtime: the system's Node where it is new enough, else Node 24 from npm, kept in .node.
NODE_VERSION := 24.21.0
NODE_ARCH := $(subst x86_64,x64,$(subst aarch64,arm64,$(shell uname -m)))
LOCAL_NODE := .node/node_modules/node-linux-$(NODE_ARCH)/bin
SYSTEM_NODE_OK := $(shell node -e 'const [a, b] = process.versions.node.split(".").map(Number); console.log(a > 22 || (a === 22 && b >= 19) ? "yes" : "no")' 2>/dev/null)
ifneq ($(SYSTEM_NODE_OK),yes)
export PATH := $(CURDIR)/$(LOCAL_NODE):$(PATH)
RUNTIME := $(LOCAL_NODE)/node
endif
ADDON := build/native/netlink_socket.node
TEST_ADDON := build/test/socketpair.node
DAEMON := build/kube-ipvs-proxy.mjs
COMPILED := build/kube-ipvs-proxy.cache
IMAGE := build/image/.stamp
SOURCES := $(shell find src -name '*.ts')

.PHONY: help deps packages build image test scenario demo bench bench-guard bench-record lint format typecheck clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: packages $(RUNTIME) node_modules/.stamp ## install what is missing: Debian packages, a Node 24 of our own if needed, npm packages

packages:
	@scripts/packages.sh

$(LOCAL_NODE)/node:
	npm install --prefix .node --no-save --no-audit --no-fund --loglevel=error node-linux-$(NODE_ARCH)@$(NODE_VERSION)
	@touch $@

# Not `npm ci`: it refuses a lock file that leaves out the optional packages of platforms we do not run on. This
# installs the same: exact versions, each checked against the lock file's integrity hash.
node_modules/.stamp: package.json package-lock.json | $(RUNTIME)
	npm install --no-save --no-audit --no-fund --loglevel=error
	@touch $@

build: deps $(ADDON) $(COMPILED) ## compile the addon and bundle the daemon

# nodelete: a thread that waits for a program runs its code until then, also where the worker that loaded it has ended.
COMPILE_ADDON = $(CXX) -std=c++20 -O2 -g -Wall -Wextra -Werror -fPIC -shared -Wl,-z,nodelete -fvisibility=hidden -fno-exceptions \
  -DNAPI_VERSION=9 -DNODE_ADDON_API_DISABLE_CPP_EXCEPTIONS \
  -I node_modules/node-api-headers/include -I node_modules/node-addon-api $(filter %.cc,$^) -o $@

$(ADDON): $(wildcard native/*.cc native/*.h) node_modules/.stamp
	@mkdir -p $(@D)
	$(COMPILE_ADDON)

# The other end of a socket, played by the tests.
$(TEST_ADDON): $(wildcard test/native/*.cc) node_modules/.stamp
	@mkdir -p $(@D)
	$(COMPILE_ADDON)

$(DAEMON): $(SOURCES) scripts/bundle.ts node_modules/.stamp
	node scripts/bundle.ts $@

$(COMPILED): $(DAEMON) scripts/compile.ts
	node scripts/compile.ts $(DAEMON:.mjs=.js) $@

image: deps $(IMAGE) ## the root file system of the container image in build/image, without Docker

$(IMAGE): scripts/image-rootfs.sh Dockerfile $(ADDON) $(COMPILED)
	scripts/image-rootfs.sh $(@D)
	@touch $@

typecheck: deps
	node_modules/.bin/tsc -p .

lint: deps typecheck ## format check, type check, type-aware lint
	node_modules/.bin/prettier --check --log-level=warn .
	node_modules/.bin/oxlint --type-aware --deny-warnings

format: deps ## rewrite every file as the formatter wants it
	node_modules/.bin/prettier --write --log-level=warn .

test: build image $(TEST_ADDON) ## all tests: on the host, then on a kernel with IPVS; FILTER=path narrows both
	scripts/test.sh $(FILTER)

scenario: build ## one scenario file, on the plan and with packets: NAME=cluster-ip/two-endpoints
	TEST_SCENARIO=$(NAME) scripts/test.sh --testPathPatterns scenarios

demo: build ## a small cluster on a real IPVS kernel, step by step, in under two minutes
	@test/kernel/run.sh node test/demo/demo.ts

BENCH_NODE := node --max-semi-space-size=2 --disable-warning=ExperimentalWarning test/bench
BENCH := test/kernel/run.sh $(BENCH_NODE)

bench: build image ## measures against baselines of the same run, JSON lines and docs/performance.md; QUICK=1: small; ROWS=part,part
	@export KERNEL_MEMORY=$${KERNEL_MEMORY:-$(if $(QUICK),3G,6G)} BENCH_QUICK=$(QUICK) BENCH_ROWS=$(ROWS); status=0; \
	  $(BENCH_NODE)/bench.ts || status=$$?; $(BENCH)/bench.ts || status=$$?; exit $$status

bench-guard: build ## a small bench: fails when a ratio is more than twice as bad as the recorded one
	@$(BENCH)/guard.ts

bench-record: build ## records the ratios that bench-guard compares with
	@BENCH_RECORD=1 $(BENCH)/guard.ts

clean: ## remove everything that was built or installed here
	rm -rf build node_modules .node
