# NormGLUE: masked-LM pretraining and GLUE fine-tuning in C on oneDNN.
#
#   make            build ./normglue
#   make demo       text to score table in 3 minutes: the tour
#   make test       build and run every test; ends with "N passed, N failed"
#   make san        the same under AddressSanitizer and UndefinedBehaviorSanitizer
#   make test-golden GOLDEN=DIR   compare with outputs of reference encoders in DIR
#   make bench      training beside PyTorch, oneDNN's products and the processor: a table
#                   of goals (PYTHON with torch; BENCH="--help" for choices)
#   make bench-tokenizer          the tokenizer beside peers in PYTHON
#   make coverage   line and branch coverage of the tests
#   make style      format, sizes of functions and files, direction of includes
#   make docs       write the options of every command and the file map
#   make clean      remove what was built
#   make help       print this text
#
# Variables: CC (gcc), OPT (-O3), MARCH (-march=x86-64-v3 on x86-64: AVX2 and FMA),
# SAN=1 and COV=1 (instrumented builds, as san and coverage make them), V=1 (whole
# commands), -jN.
# What is missing on Debian or Ubuntu is installed by .ci/deps, as root or with sudo.

ifeq ($(origin CC),default)
CC := gcc
endif
OPT ?= -O3
MARCH ?= $(if $(filter x86_64,$(shell uname -m)),-march=x86-64-v3 -mtune=native)
BUILD := build

# The instrumented builds see "uninitialised" variables where there are none.
ifdef SAN
BUILD := build/san
OPT := -O1
INSTRUMENT := -fsanitize=address,undefined -fno-sanitize-recover=all \
  -fno-omit-frame-pointer -Wno-maybe-uninitialized
endif
ifdef COV
BUILD := build/coverage
OPT := -O1
INSTRUMENT := --coverage -Wno-maybe-uninitialized
endif

Q := $(if $(V),,@)

# All cores, unless the caller says how many.
ifeq ($(MAKELEVEL)$(filter -j% --jobs%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
  -Werror
# Neither errno nor floating-point traps are looked at; NaN and infinity are. a * b + c
# may be one instruction (ISO mode would forbid it).
FLAGS := -std=c17 -D_GNU_SOURCE -I. -fopenmp -fno-math-errno -fno-trapping-math \
  -ffp-contract=fast $(WARNINGS) $(OPT) $(MARCH) -g $(INSTRUMENT) $(CFLAGS)
LIBS := -ldnnl -lutf8proc -ljansson -lz -lm

PARTS := base tokenizer encoder pretrain finetune glue
SOURCES := $(foreach part,$(PARTS),$(wildcard $(part)/*.c))
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o)
PROGRAMS := $(wildcard tests/test_*.c tests/bench_*.c)
HELPERS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(PROGRAMS),$(wildcard tests/*.c)))
TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/test_*.c))
STEPPERS := $(BUILD)/tests/bench_step $(BUILD)/tests/bench_products
BENCHES := $(patsubst tests/bench_%.c,bench-%,$(filter-out $(STEPPERS:$(BUILD)/%=%.c), \
  $(wildcard tests/bench_*.c)))
PYTHON ?= python3

.PHONY: all help demo test san test-golden bench $(BENCHES) coverage style docs clean
.SECONDARY:
.DELETE_ON_ERROR:

all: normglue

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

normglue: $(BUILD)/normglue
	@cp $< $@

$(BUILD)/normglue: $(BUILD)/normglue.o $(OBJECTS)
	@echo "link $@"
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libnormglue.a: $(OBJECTS)
$(BUILD)/tests/libhelpers.a: $(HELPERS)
%.a:
	@rm -f $@; ar rcs $@ $^

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/tests/libhelpers.a $(BUILD)/libnormglue.a
	@echo "link $@"
	$(Q)$(CC) $(FLAGS) -o $@ $^ -lcmocka $(LIBS)

$(BUILD)/%.o: %.c | $(BUILD)/.deps-build
	@mkdir -p $(@D); echo "cc $<"
	$(Q)$(CC) $(FLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%.o: tests/%.c | $(BUILD)/.deps-test
	@mkdir -p $(@D); echo "cc $<"
	$(Q)$(CC) $(FLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/.deps-test: $(BUILD)/.deps-build # one apt-get at a time
$(BUILD)/.deps-%:
	@CC=$(CC) .ci/deps $*
	@mkdir -p $(@D) && touch $@

demo: normglue
	@sh demo/run.sh

test: $(BUILD)/normglue $(TESTS)
	@NORMGLUE=$(BUILD)/normglue sh tests/run.sh $(BUILD) tests/layers.sh $(TESTS)

san:
	@$(MAKE) --no-print-directory SAN=1 test

test-golden: $(BUILD)/tests/test_golden
	@$< "$(or $(GOLDEN),$(error usage: make test-golden GOLDEN=DIR))"

bench: $(STEPPERS) normglue
	@$(PYTHON) tests/bench/goals.py --build $(BUILD) $(BENCH)

# A bench that has peers runs beside them where there is Python.
$(BENCHES): bench-%: $(BUILD)/tests/bench_% normglue
	@if [ -f tests/bench_$*.py ] && command -v $(PYTHON) > /dev/null; then \
	  $(PYTHON) tests/bench_$*.py --bench $< $(BENCH); else $<; fi

coverage: | $(BUILD)/.deps-coverage
	-@$(MAKE) --no-print-directory COV=1 test
	@gcovr --root . --object-directory build/coverage --exclude tests --print-summary

style: $(BUILD)/normglue | $(BUILD)/.deps-style
	@sh tests/style.sh

docs: normglue
	@sh tests/docs.sh

$(BUILD)/encoder/modelling.o: $(wildcard encoder/modelling/*.py)

clean:
	rm -rf build normglue

-include $(OBJECTS:.o=.d) $(BUILD)/normglue.d $(wildcard $(BUILD)/tests/*.d)
