#!/bin/sh
# bench_arrangement_steps - time of a training step of every arrangement beside preln's,
# at the size of bench_arrangements.sh; on a machine that does nothing else.
#
#   sh tests/bench_arrangement_steps.sh [KEY=VALUE ...]    keys of bench_step: other sizes
#
# ROUNDS (5) times all take turns: STEPS (20) steps each, and preln before each of them.
# A line: median of the ratios, least and most. precrms is beside preln without dropout.

set -e
bench=${BENCH_STEP:-build/tests/bench_step}
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT

# step ARCH KEYS: seconds a step, after five that do not count
step() {
    printf 'step 5 64x16\nstep %s 64x16\n' "${STEPS:-20}" |
        "$bench" task=mlm dtype=f32 layers=2 hidden=128 heads=4 ffn=512 vocab=2000 \
            threads=1 lengths=64x16 "arch=$@" | sed -n '$s/^step=\([^ ]*\).*/\1/p'
}

for round in $(seq "${ROUNDS:-5}"); do
    for arch in $("$bench" presets | sed 's/ .*//'); do
        dropout=0.1
        [ "$arch" != precrms ] || dropout=0
        preln=$(step preln dropout=$dropout "$@")
        echo "$arch $(step "$arch" dropout=$dropout "$@") $preln" >>"$rows"
    done
done
printf '%-18s %9s %9s  %s\n' arch 'ms a step' 'of preln' range
awk '{ print $1, NR, 1000 * $2, $2 / $3 }' "$rows" | sort -k1,1 -k4,4g |
    awk -v rounds="${ROUNDS:-5}" '
        {
            ms[$1] += $3 / rounds
            ratio[$1, ++n[$1]] = $4
            if (!at[$1] || $2 < at[$1]) at[$1] = $2
        }
        END {
            for (arch in n)
                printf "%d %-18s %9.2f %9.3f  %.3f..%.3f\n", at[arch], arch, ms[arch],
                    ratio[arch, int((n[arch] + 1) / 2)], ratio[arch, 1],
                    ratio[arch, n[arch]]
        }' | sort -n | cut -d' ' -f2-
