# Entry point for building and testing. `make help` lists the targets.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Use the system's Node.js if it is new enough, else Node 24 from npm, installed in .node.
NODE_VERSION := 24.21.0
NODE_ARCH := $(subst x86_64,x64,$(subst aarch64,arm64,$(shell uname -m)))
LOCAL_NODE := .node/node_modules/node-linux-$(NODE_ARCH)/bin
SYSTEM_NODE_OK := $(shell node -e 'const [a, b] = process.versions.node.split(".").map(Number); console.log(a > 22 || (a === 22 && b >= 19) ? "yes" : "no")' 2>/dev/null)
ifneq ($(SYSTEM_NODE_OK),yes)
export PATH := $(CURDIR)/$(LOCAL_NODE):$(PATH)
RUNTIME := $(LOCAL_NODE)/node
endif
ADDON := build/native/netlink_socket.node
SANITIZED := build/sanitize/address.node build/sanitize/thread.node
TEST_ADDON := build/test/socketpair.node
CXX_FILES := $(wildcard native/*.cc native/*.h test/native/*.cc lab/kernel/machine/*.cc)
DAEMON := build/kube-ipvs-proxy.mjs
COMPILED := $(DAEMON:.mjs=.cache)
# The image: ARCH is amd64 or arm64. Another architecture than this machine's is cross-compiled, in a folder of its own.
HOST_ARCH := $(subst x64,amd64,$(NODE_ARCH))
ARCH := $(HOST_ARCH)
# The folder of what depends on the architecture.
OUT := build$(if $(filter-out $(HOST_ARCH),$(ARCH)),/$(ARCH))
# Node.js in the image is always this version, from npm, whatever the build runs with.
NODE_PACKAGE = node-linux-$(subst amd64,x64,$(1))
NODE_PROGRAM = build/node/$(1)/node_modules/$(NODE_PACKAGE)/bin/node
SOURCES := $(shell find src -name '*.ts')
# The commit that --version reports. COMMIT_FILE is written only when it changes: see its rule.
COMMIT := $(or $(GIT_COMMIT),$(shell git rev-parse HEAD 2>/dev/null),unknown)
COMMIT_FILE := build/commit

.PHONY: help deps packages build image rootfs archive tools test coverage scenario matrix demo demo-record fuzz soak cluster cluster-down e2e e2e-page trial smoke smoke-build smoke-possible judge judge-build total bench bench-guard bench-record lint unused format sanitize typecheck clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: packages $(RUNTIME) node_modules/.stamp ## install missing Debian packages, Node 24 if needed, npm packages

packages:
	@scripts/packages.sh

$(LOCAL_NODE)/node:
	npm install --prefix .node --no-save --no-audit --no-fund --loglevel=error node-linux-$(NODE_ARCH)@$(NODE_VERSION)
	@touch $@

# Not `npm ci`: it rejects our lock file, which omits optional packages of platforms that we do not run on. This
# installs the same exact versions and verifies each against the lock file's integrity hash.
node_modules/.stamp: package.json package-lock.json | $(RUNTIME)
	npm install --no-save --no-audit --no-fund --loglevel=error
	@touch $@

build: deps $(ADDON) $(COMPILED) ## compile the addon and bundle the daemon

# nodelete: a thread of the addon may still run its code when the worker that loaded it has ended.
COMPILE_ADDON = $(CXX) -std=c++20 -O2 -g $(SANITIZERS) -Wall -Wextra -Werror -fPIC -shared -Wl,-z,nodelete -ffile-prefix-map="$(CURDIR)"=. -fvisibility=hidden -fno-exceptions \
  -DNAPI_VERSION=9 -DNODE_ADDON_API_DISABLE_CPP_EXCEPTIONS \
  -I node_modules/node-api-headers/include -I node_modules/node-addon-api $(filter %.cc,$^) -o $@

$(ADDON): $(wildcard native/*.cc native/*.h) node_modules/.stamp
	@mkdir -p $(@D)
	$(COMPILE_ADDON)

build/sanitize/address.node: SANITIZERS := -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
build/sanitize/thread.node: SANITIZERS := -O1 -fsanitize=thread -fno-omit-frame-pointer
$(SANITIZED): $(wildcard native/*.cc native/*.h) node_modules/.stamp
	@mkdir -p $(@D)
	$(COMPILE_ADDON)

# The peer of a socket in tests.
$(TEST_ADDON): $(wildcard test/native/*.cc) node_modules/.stamp
	@mkdir -p $(@D)
	$(COMPILE_ADDON)

# A new commit alone makes the bundle out of date. Without git or a repository, the commit is always "unknown".
ifneq ($(COMMIT),$(shell cat $(COMMIT_FILE) 2>/dev/null))
.PHONY: $(COMMIT_FILE)
endif
$(COMMIT_FILE):
	@mkdir -p $(@D)
	@echo $(COMMIT) >$@

$(DAEMON): $(SOURCES) scripts/bundle.ts node_modules/.stamp $(COMMIT_FILE)
	node scripts/bundle.ts $@

$(COMPILED): $(DAEMON) scripts/compile.ts
	node scripts/compile.ts $(DAEMON:.mjs=.js) $@

image: deps $(OUT)/image.tar ## the container image in build/image.tar, its files in build/image, without Docker; ARCH=arm64

# scripts/image/node.sha256 has the checksums of the programs that we publish. --force: for another architecture.
build/node/%/.stamp: scripts/image/node.sha256 | $(RUNTIME)
	npm install --prefix $(@D) --no-save --no-audit --no-fund --loglevel=error --force \
	  $(call NODE_PACKAGE,$*)@$(NODE_VERSION)
	grep ' build/node/$*/' $< | sha256sum --check --quiet
	@touch $@

build/.cross-packages: scripts/packages.sh
	@scripts/packages.sh cross
	@mkdir -p $(@D) && touch $@

build/arm64/native/netlink_socket.node: CXX := aarch64-linux-gnu-g++
build/amd64/native/netlink_socket.node: CXX := x86_64-linux-gnu-g++
build/%/native/netlink_socket.node: $(wildcard native/*.cc native/*.h) node_modules/.stamp | build/.cross-packages
	@mkdir -p $(@D)
	$(COMPILE_ADDON)

IMAGE_FILES := $(wildcard scripts/image/*) Dockerfile LICENSE package.json package-lock.json
IMAGE_ENV = PATH="$(CURDIR)/$(dir $(call NODE_PROGRAM,$(HOST_ARCH))):$$PATH" SOURCE_DATE_EPOCH=$(or $(SOURCE_DATE_EPOCH),$(shell \
  git log -1 --format=%ct 2>/dev/null),0) GIT_COMMIT=$(COMMIT)

# The files alone, for the Dockerfile.
rootfs: $(OUT)/image.stamp

$(OUT)/image.stamp: $(IMAGE_FILES) $(DAEMON) $(OUT)/native/netlink_socket.node build/node/$(HOST_ARCH)/.stamp build/node/$(ARCH)/.stamp
	$(IMAGE_ENV) scripts/image/rootfs.sh $(ARCH) $(OUT)/native/netlink_socket.node $(call NODE_PROGRAM,$(ARCH)) $(OUT)/image
	@touch $@

$(OUT)/image.tar: $(OUT)/image.stamp
	$(IMAGE_ENV) node scripts/image/main.ts $@ $(ARCH)=$(OUT)/image

VERSION := $(shell sed -n 's/^  "version": "\(.*\)",$$/\1/p' package.json)
BINARIES := kube-ipvs-proxy-$(VERSION)-linux-$(ARCH).tar.gz

archive: deps $(OUT)/$(BINARIES) ## the program for a node without containers, in build/kube-ipvs-proxy-*.tar.gz; ARCH=arm64

$(OUT)/$(BINARIES): scripts/release/archive.sh scripts/release/man-page.ts $(wildcard packaging/*) $(OUT)/image.stamp
	$(IMAGE_ENV) scripts/release/archive.sh $(ARCH) $(OUT)/image $(OUT)/archive $@

typecheck: deps
	node_modules/.bin/tsc -p .

lint: deps typecheck unused ## format, types, type-aware lint, unused code, workflows
	node_modules/.bin/prettier --check --log-level=warn .
	node_modules/.bin/oxlint --type-aware --deny-warnings
	scripts/lint-workflows.sh
ifeq ($(NODE_ARCH),x64)
	node_modules/.bin/clang-format --dry-run --Werror $(CXX_FILES)
endif

# Unused files, exports and dependencies (knip.json).
unused: deps
	node_modules/.bin/knip --no-progress --exclude unresolved,binaries

format: deps ## format every file
	node_modules/.bin/prettier --write --log-level=warn .
ifeq ($(NODE_ARCH),x64)
	node_modules/.bin/clang-format -i $(CXX_FILES)
endif

# Tools of tests and of `make lint`, from Go modules, and promtool, from a package. Without Go or apt-get, those checks say
# that they were left out.
TOOLS := actionlint helm kustomize
tools: ## build or fetch the tools of tests, once for all checkouts
	@scripts/go-tool.sh $(TOOLS) >/dev/null || echo 'not all tools were built: tests that need them fail, or do not run without Go'
	@scripts/promtool.sh >/dev/null || echo 'promtool was not unpacked: the test of the alerts fails, or does not run without apt-get'

test: build image archive tools $(TEST_ADDON) ## all tests: on the host, then on a kernel with IPVS; FILTER=path selects; IPTABLES=nft
	IPTABLES=$(IPTABLES) scripts/test.sh $(FILTER)

coverage: build $(TEST_ADDON) ## coverage of the host tests, in build/coverage; a report, not a gate
	node --experimental-vm-modules --disable-warning=ExperimentalWarning node_modules/jest/bin/jest.js --selectProjects host \
	  --coverage --coverageDirectory=build/coverage --collectCoverageFrom='src/**/*.ts' --coverageReporters=text-summary --coverageReporters=html

sanitize: build $(TEST_ADDON) $(SANITIZED) ## the addon's tests with AddressSanitizer, leaks, UBSan and ThreadSanitizer
	@CXX="$(CXX)" scripts/sanitize.sh address build/sanitize/address.node
	@CXX="$(CXX)" scripts/sanitize.sh thread build/sanitize/thread.node

DURATION := 60
fuzz: deps ## random faults on the kernel in memory, seed after seed: DURATION=3600 SEED=1
	scripts/fuzz.sh $(DURATION) $(or $(SEED),1)

soak: build ## the daemon on a real kernel while its cluster changes; it must not grow: DURATION=3600 SERVICES=500 CHANGES=20 a second
	@lab/kernel/run.sh node --disable-warning=ExperimentalWarning lab/soak/soak.ts $(DURATION) $(or $(SERVICES),500) $(or $(CHANGES),20)

scenario: build ## one scenario file, as a plan and with packets: NAME=cluster-ip/two-endpoints MODE=nftables|iptables|userspace
	TEST_SCENARIO=$(NAME) TEST_MODE=$(or $(MODE),ipvs) $(if $(filter nftables userspace,$(MODE)),KERNEL=$${KERNEL:-uml-nft} )scripts/test.sh --testPathPatterns scenarios

# On the kernel with nf_tables in every mode, so that all runs are of one kernel.
matrix: build ## who reaches what, by packets, against lab/results/traffic-matrix.json: MODE=ipvs|nftables|iptables|userspace PROXY=kube-proxy; UPDATE=1 records it
	@$(if $(filter kube-proxy,$(PROXY)),node lab/cluster/build-kube-proxy.ts)
	@TEST_MODE=$(or $(MODE),ipvs) TEST_PROXY=$(PROXY) TEST_UPDATE=$(UPDATE) KERNEL=$${KERNEL:-uml-nft} scripts/test.sh test/traffic/matrix.test.ts
	@$(if $(UPDATE),node scripts/generate-docs.ts)

demo: build ## a small cluster on a real IPVS kernel, step by step; about a minute; MODE=nftables, iptables or userspace
	@$(if $(MODE),TEST_MODE=$(MODE) )$(if $(filter nftables userspace,$(MODE)),KERNEL=$${KERNEL:-uml-nft} )lab/kernel/run.sh node lab/demo/demo.ts

demo-record: build ## record that demo, and draw docs/demo.svg from it
	@scripts/packages.sh record
	@scripts/record-demo.sh

# NODES, KUBERNETES, FAMILY, PROXY, OVERLAY, LOAD_BALANCER, MEMORY and CLUSTER are in lab/cluster/settings.ts.
CLUSTER_SETTINGS = $(foreach name,CLUSTER NODES KUBERNETES FAMILY PROXY OVERLAY LOAD_BALANCER MEMORY,"$(name)=$($(name))")

cluster: build image ## a Kubernetes cluster on this machine: NODES=2 FAMILY=dual PROXY=kube-proxy OVERLAY=restricted CLUSTER=name
	@scripts/packages.sh cluster
	@nice -n 5 node lab/cluster/up.ts $(CLUSTER_SETTINGS)

e2e: build image ## upstream's e2e specs: FOCUS=Services PROXY=ours|kube-proxy-ipvs|all (and others) TIMEOUT=90m
	@scripts/packages.sh cluster
	@nice -n 5 node lab/cluster/e2e/main.ts $(CLUSTER_SETTINGS) $(foreach name,FOCUS PROCS TIMEOUT,"$(name)=$($(name))")

trial: build image ## something done to a cluster while traffic goes on: TRIAL=daemon-restart, or TRIAL=all
	@scripts/packages.sh cluster
	@nice -n 5 node lab/cluster/trial/main.ts $(CLUSTER_SETTINGS) "TRIAL=$(TRIAL)"

e2e-page: deps ## write lab/results/e2e.md and lab/results/trials.md again, from the JSON files beside them
	@node lab/cluster/e2e/make-page.ts

smoke: build image ## a cluster with the restricted overlay and a few of those specs, as in CI
	@scripts/packages.sh cluster
	@nice -n 5 node lab/cluster/smoke/main.ts $(CLUSTER_SETTINGS)
	@node scripts/count.ts build/test/cluster.json

smoke-build: deps ## build what smoke needs: Kubernetes and its specs, from Go modules
	@scripts/packages.sh cluster
	@node lab/cluster/smoke/build.ts $(CLUSTER_SETTINGS)

smoke-possible:
	@node lab/cluster/smoke/possible.ts

# CASES, SEED, MODE and ONLY are in lab/judge/options.ts.
judge: deps ## compare our plan with upstream's proxiers on random clusters; needs Go: CASES=2000 SEED=1 MODE=ipvs ONLY=case
	@node --disable-warning=ExperimentalWarning lab/judge/main.ts $(foreach name,CASES SEED MODE ONLY,"$(name)=$($(name))")

judge-build: deps ## build what judge needs, from Go modules
	@node --disable-warning=ExperimentalWarning lab/judge/build.ts

# The totals of the reports REPORTS, for .ci/run.
total:
	@node scripts/count.ts $(REPORTS)

cluster-down: ## end that cluster and remove what it left: CLUSTER=name
	@node lab/cluster/down.ts "CLUSTER=$(CLUSTER)"

BENCH_NODE := node --max-semi-space-size=2 --disable-warning=ExperimentalWarning lab/bench
BENCH := lab/kernel/run.sh $(BENCH_NODE)

bench: build image ## measure against baselines, write lab/results/performance.*; QUICK=1: small run; ROWS=part,part
	@export KERNEL_MEMORY=$${KERNEL_MEMORY:-$(if $(QUICK),3G,6G)} BENCH_QUICK=$(QUICK) BENCH_ROWS=$(ROWS); status=0; \
	  $(BENCH_NODE)/bench.ts || status=$$?; $(BENCH)/bench.ts || status=$$?; $(if $(QUICK),,node scripts/generate-docs.ts || status=$$?;) exit $$status

bench-guard: build ## small bench; fails if a ratio is more than twice the recorded one
	@$(BENCH)/guard.ts

bench-record: build ## record the ratios that bench-guard compares with
	@BENCH_RECORD=1 $(BENCH)/guard.ts

clean: ## remove everything that was built or installed here
	rm -rf build node_modules .node
