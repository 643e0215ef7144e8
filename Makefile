# NormGLUE: masked-LM pretraining and GLUE fine-tuning in C on oneDNN.
#
#   make              build ./normglue                      make demo      text to score table in 3 minutes
#   make test         build and run every test              make san       the same under ASan and UBSan
#   make test-golden GOLDEN=DIR   compare with reference encoders (tests/test_golden.c)
#   make bench        benchmarks                            make coverage  line and branch coverage
#   make style        format, function and file sizes, direction of includes
#   make clean        remove what was built                 make help      this text
#
# Variables: BUILD (build), CC, OPT (-O3), MARCH (x86-64-v3 where it fits), SAN=1.

BUILD ?= build
CC ?= gcc
OPT ?= -O3
MARCH ?= $(if $(filter x86_64,$(shell uname -m)),-march=x86-64-v3 -mtune=native)
PARTS := base tokenizer encoder pretrain finetune glue

ifdef SAN
BUILD := build/san
OPT := -O1
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
ifdef COV
BUILD := build/coverage
OPT := -O1
SANITIZE := --coverage
endif

CFLAGS ?= $(OPT) $(MARCH) -g
ALL_CFLAGS := -std=c17 -D_GNU_SOURCE -I. -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=fast -Wall -Wextra -Wpedantic \
  -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror $(CFLAGS) $(SANITIZE)
LDLIBS := -ldnnl -lutf8proc -ljansson -lz -lm

SOURCES := $(foreach part,$(PARTS),$(wildcard $(part)/*.c))
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o)
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(wildcard tests/test_*.c tests/bench_*.c),$(wildcard tests/*.c)))

.PHONY: all help test san clean
.SECONDARY:
all: normglue

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

normglue: $(BUILD)/normglue
	@cp $< $@

$(BUILD)/normglue: $(BUILD)/normglue.o $(OBJECTS)
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libnormglue.a: $(OBJECTS)
	@rm -f $@; ar rcs $@ $^

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(SUPPORT) $(BUILD)/libnormglue.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

clean:
	rm -rf build normglue

-include $(OBJECTS:.o=.d) $(BUILD)/normglue.d $(wildcard $(BUILD)/tests/*.d)
