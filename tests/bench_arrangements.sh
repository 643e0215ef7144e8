#!/bin/sh
# bench_arrangements - the same pretraining with every arrangement: validation loss over
# seeds, parameters beside preln's, gradients of the first and the last layer.
#
#   sh tests/bench_arrangements.sh TRAIN VALID TOKENIZER [OUTPUT]
#
# 2 layers, hidden 128, 4 heads, fixed blocks of 64 tokens, 16 a step, dropout 0.1
# (precrms: none), AdamW (0.9, 0.98) with decay 0.01, 3/40 of the STEPS of warm-up,
# learning rate 1e-3 with norms after the add and 2e-3 else. Gradients are sums of
# absolute values of the last matrix of the feed-forward, means over the second half of
# the run. STEPS (4000), ARCHS, SEEDS (0), JOBS (1: runs at a time) and NORMGLUE can be
# set. Runs that OUTPUT holds already are not made again. On one thread in f32 a run of
# 4000 steps takes a minute. Times a step are those of make bench.

set -e
[ $# -ge 3 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
export TRAIN="$1" VALID="$2" TOKENIZER="$3" OUTPUT="${4:-$(mktemp -d)}"
export NORMGLUE="${NORMGLUE:-build/normglue}" STEPS="${STEPS:-4000}"
archs=${ARCHS:-$("$NORMGLUE" pretrain --help |
    sed -n '/^Arrangements (/,/^$/s/^  \([a-z][a-z0-9_]*\) .*/\1/p')}
mkdir -p "$OUTPUT"

# train SEED ARCH
train='
    seed=$0 arch=$1 rate=2e-3 dropout=0.1
    run=$OUTPUT/$arch-$seed
    [ ! -e "$run/done-$STEPS" ] || exit 0
    case $arch in
        postln | b2t | residual_dual | deepnorm) rate=1e-3 ;;
        precrms) dropout=0 ;;
    esac
    "$NORMGLUE" pretrain --arch "$arch" --tokenizer "$TOKENIZER" --train "$TRAIN" \
        --valid "$VALID" --cache-dir "$OUTPUT/data" --packing fixed-blocks \
        --hidden-size 128 --num-hidden-layers 2 --num-attention-heads 4 \
        --intermediate-size 512 --max-position-embeddings 66 --max-seq-length 64 \
        --per-device-train-batch-size 16 --max-steps "$STEPS" \
        --warmup-steps $((STEPS * 3 / 40)) --learning-rate "$rate" \
        --eval-steps $((STEPS / 4)) --save-steps "$STEPS" --logging-steps 10 \
        --hidden-dropout-prob "$dropout" --seed "$seed" --threads 1 --dtype f32 \
        --progress never --overwrite --output "$run" >"$run.log" 2>&1 ||
        { echo "$arch, seed $seed: $(tail -n 1 "$run.log")" >&2; exit 1; }
    touch "$run/done-$STEPS"
'
for seed in ${SEEDS:-0}; do
    # The first one leaves the tokenised text for the others.
    [ -e "$OUTPUT/data" ] || sh -c "$train" "$seed" preln
    printf '%s\n' $archs | xargs -P "${JOBS:-1}" -n 1 sh -c "$train" "$seed" || :
done

# parameters ARCH-SEED
parameters() { sed -n 's/^model: .*: \([0-9]*\) parameters/\1/p' "$OUTPUT/$1.log"; }

printf '%-18s %4s %8s %8s %8s %10s %10s\n' arch seed valid best params 'grad first' \
    'grad last'
for arch in $archs; do
    for seed in ${SEEDS:-0}; do
        run=$arch-$seed
        [ -e "$OUTPUT/$run/done-$STEPS" ] || continue
        params=$(parameters "$run")
        params_0=$(parameters "preln-$seed" || echo "$params")
        awk -v arch="$arch" -v seed="$seed" -v params=$((params - params_0)) \
            -v steps="$STEPS" '
            function field(name) {
                if (!match($0, "\"" name "\": [^,}]*"))
                    return ""
                return substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4)
            }
            field("step") + 0 > steps / 2 && field("grad_fc2_first") != "" {
                first += field("grad_fc2_first")
                last += field("grad_fc2_last")
                lines++
            }
            field("eval_loss") != "" {
                loss = field("eval_loss") + 0
                if (best == "" || loss < best)
                    best = loss
            }
            END {
                printf "%-18s %4s %8.4f %8.4f %+8d %10.3g %10.3g\n", arch, seed, loss,
                    best, params, first / lines, last / lines
            }' "$OUTPUT/$run/metrics.jsonl"
    done
done
