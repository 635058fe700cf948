# FirstFrame: `make demo` shows it, `make test` checks it. Both install missing system packages first.

SWIFT := swift
FLAGS := --explicit-target-dependency-import-check error
CLIPS := .demo/clips

.PHONY: help viewer test-viewer fuzz-media build demo test simulate stress sanitize test-threads mutations fuzz bench lint format docs clean

help:
	@echo "make demo    build, make the clips once, run the two-tab demo (under four minutes after the build)"
	@echo "make test    build and run all tests"
	@echo "make viewer  build the viewer, a window on SDL2;  make test-viewer  look at its pixels on a display without a screen"
	@echo "make simulate  SEEDS (10000) whole runtimes in virtual time, every promise checked after every step"
	@echo "make stress  random calls from many tasks on the real thing, for SECONDS (30)"
	@echo "make sanitize  a shorter stress under ThreadSanitizer, and under AddressSanitizer with leak checking"
	@echo "make mutations  plants faults and fails when the simulation misses one (about ten minutes)"
	@echo "make bench   pages and switches, downloads beside curl's, engines, first frames beside a bare program (ten minutes)"
	@echo "make fuzz    parsers of what servers say, under libFuzzer, for FUZZ_SECONDS (20)"
	@echo "make fuzz-media  the engine on mutated files of MEDIA (the demo's clips), under AddressSanitizer"
	@echo "make lint    check formatting;  make format  apply it"
	@echo "make docs    build the documentation into .build/docs"
	@echo "make clean   remove what was built, the demo's clips too"

build:
	@.ci/packages build
	$(SWIFT) build $(FLAGS)

demo:
	@.ci/packages demo
	$(SWIFT) build -c release $(FLAGS) --product firstframe
	@$(RELEASE) demo --clips $(CLIPS)

test:
	@.ci/packages test
	$(SWIFT) build $(FLAGS) --build-tests
	$(SWIFT) test --skip-build --disable-xctest

VIEWER = --package-path Examples/Viewer --scratch-path .build/viewer
viewer:
	@.ci/packages viewer
	$(SWIFT) build $(VIEWER)
	@echo "run it: $$($(SWIFT) build $(VIEWER) --show-bin-path)/viewer FILE-OR-URL ... [-- FILE-OR-URL ...]"

test-viewer: viewer
	Tests/Viewer/run "$$($(SWIFT) build $(VIEWER) --show-bin-path)/viewer"

RELEASE = "$$($(SWIFT) build -c release --show-bin-path)/firstframe"

SEEDS := 10000
simulate:
	@.ci/packages build
	$(SWIFT) build -c release $(FLAGS) --product firstframe
	@$(RELEASE) simulate --seeds $(SEEDS)

SECONDS := 30
stress:
	@.ci/packages demo
	$(SWIFT) build -c release $(FLAGS) --product firstframe
	@$(RELEASE) stress --clips $(CLIPS) --seconds $(SECONDS)

# Both build folders are their own: what is built with a sanitizer does not mix with what is not.
sanitize:
	@.ci/packages demo
	$(SWIFT) build --sanitize=thread --scratch-path .build/thread --product firstframe
	TSAN_OPTIONS=halt_on_error=1 .build/thread/debug/firstframe stress --clips $(CLIPS) --pages 50 --seconds 15
	$(SWIFT) build --sanitize=address --scratch-path .build/address --product firstframe
	ASAN_OPTIONS=detect_leaks=1 .build/address/debug/firstframe stress --clips $(CLIPS) --pages 50 --seconds 15
	ASAN_OPTIONS=detect_leaks=1 .build/address/debug/firstframe simulate --seeds 300

mutations:
	@.ci/packages test
	Tests/Mutations/run

# The tests of loop, transport, cache and pages under ThreadSanitizer; slow.
test-threads:
	@.ci/packages test
	$(SWIFT) test --disable-xctest --sanitize=thread --scratch-path .build/thread \
		--filter 'EventLoopTests|HTTPTransportTests|MediaCacheTests|FirstFrameTests'

# Parsers of what servers say, under libFuzzer; FUZZ_SECONDS=600 for a long run.
FUZZ_SECONDS := 20
fuzz:
	@.ci/packages build
	FIRSTFRAME_FUZZ=1 $(SWIFT) build --scratch-path .build/fuzz --product header-fuzz \
		-Xswiftc -sanitize=fuzzer -Xswiftc -parse-as-library
	.build/fuzz/debug/header-fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=512 -timeout=5 -artifact_prefix=.build/fuzz/

# The engine on mutated files, under AddressSanitizer with leak checking; MEDIA=folder FUZZ_SECONDS=600 for a long run.
MEDIA := $(CLIPS)
fuzz-media:
	@.ci/packages demo
	@mkdir -p $(CLIPS)
	$(SWIFT) build --sanitize=address --scratch-path .build/address --product media-fuzz
	ASAN_OPTIONS=detect_leaks=1 .build/address/debug/media-fuzz $(MEDIA) $(FUZZ_SECONDS)

bench:
	@.ci/packages demo
	$(SWIFT) build -c release $(FLAGS) --product firstframe
	$(SWIFT) build -c release $(FLAGS) --product bare-start
	@$(RELEASE) run Examples/hand-over.json5
	@$(RELEASE) bench scale
	@$(RELEASE) bench costs
	@$(RELEASE) bench start --clips $(CLIPS)

lint:
	$(SWIFT) format lint --strict --recursive Package.swift Sources Tests Examples

format:
	$(SWIFT) format --in-place --recursive Package.swift Sources Tests Examples

docs:
	@.ci/packages build
	@mkdir -p .build/docs
	$(SWIFT) build $(FLAGS) -Xswiftc -emit-symbol-graph -Xswiftc -emit-symbol-graph-dir -Xswiftc .build/docs/graphs
	docc convert --fallback-display-name FirstFrame --fallback-bundle-identifier org.firstframe \
		--fallback-bundle-version 0.1.0 --additional-symbol-graph-dir .build/docs/graphs --output-path .build/docs/html

clean:
	rm -rf .build .demo
