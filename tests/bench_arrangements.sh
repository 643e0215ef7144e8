#!/bin/sh
# bench_arrangements - the same pretraining with every arrangement: validation loss,
# parameters and time a step beside preln's, gradients of the first and the last layer.
#
#   sh tests/bench_arrangements.sh TRAIN VALID TOKENIZER [OUTPUT]
#
# 2 layers, hidden 128, 4 heads, blocks of 64 tokens, 16 a step, dropout 0.1 (precrms:
# none), AdamW (0.9, 0.98) with decay 0.01, 3/40 of the STEPS of warm-up, learning rate
# 1e-3 with norms after the add and 2e-3 else. Gradients are sums of absolute values of
# the last matrix, means over the second half of the run. STEPS (4000), ARCHS, SEED and
# NORMGLUE can be set; one thread, f32: two minutes an arrangement at 4000 steps.

set -e
[ $# -ge 3 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
output=${4:-$(mktemp -d)}
program=${NORMGLUE:-build/normglue}
steps=${STEPS:-4000}
mkdir -p "$output"

archs=$("$program" pretrain --help | sed -n '/^Arrangements/,/^$/s/^  \([a-z]\)/\1/p' |
    awk '{ print $1 }')
printf '%-18s %8s %8s %9s %8s %10s %10s\n' arch valid params 'ms a step' 'of preln' \
    'grad first' 'grad last'
for arch in preln $(echo "${ARCHS:-$archs}" | tr ' ' '\n' | grep -vx preln); do
    run=$output/$arch
    rate=2e-3
    dropout=0.1
    case $arch in
        postln | b2t | residual_dual | deepnorm) rate=1e-3 ;;
        precrms) dropout=0 ;;
    esac
    "$program" pretrain --arch "$arch" --tokenizer "$3" --train "$1" --valid "$2" \
        --cache-dir "$output/data" --hidden-size 128 --num-hidden-layers 2 \
        --num-attention-heads 4 --intermediate-size 512 --max-position-embeddings 66 \
        --max-seq-length 64 --per-device-train-batch-size 16 --max-steps "$steps" \
        --warmup-steps $((steps * 3 / 40)) --learning-rate "$rate" --eval-steps "$steps" \
        --save-steps "$steps" --logging-steps 10 --hidden-dropout-prob "$dropout" \
        --seed "${SEED:-0}" --threads 1 --dtype f32 --progress never --overwrite \
        --output "$run" 2>"$run.log" >/dev/null || echo "$arch: $(tail -n 1 "$run.log")"
    params=$(sed -n 's/^model: .*: \([0-9]*\) parameters/\1/p' "$run.log")
    seconds=$(sed -n 's/.*"seconds": \([0-9.]*\).*/\1/p' "$run/timing.jsonl" | tail -n 1)
    [ "$arch" != preln ] || { params_0=$params; seconds_0=$seconds; }
    awk -v arch="$arch" -v params=$((params - params_0)) -v steps="$steps" \
        -v seconds="$seconds" -v seconds_0="$seconds_0" '
        function field(name) {
            if (!match($0, "\"" name "\": [^,}]*"))
                return ""
            return substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4)
        }
        field("step") > steps / 2 && field("grad_fc2_first") != "" {
            first += field("grad_fc2_first")
            last += field("grad_fc2_last")
            lines++
        }
        field("eval_loss") != "" { loss = field("eval_loss") }
        END {
            printf "%-18s %8.4f %+8d %9.2f %8.3f %10.3g %10.3g\n", arch, loss, params,
                1000 * seconds / steps, seconds / seconds_0, first / lines, last / lines
        }' "$run/metrics.jsonl"
done
