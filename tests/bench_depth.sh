#!/bin/sh
# bench_depth - do 200 layers train? A line an arrangement: loss at the start and the end,
# the worst rise of the loss over its best so far, gradients of the first and the last
# layer at the end, seconds.
#
#   sh tests/bench_depth.sh [OUTPUT]
#
# The text is made up: each line is one letter many times, so that a masked token can be
# told from any other of its line; by frequency alone the loss is ln 26 = 3.26. Losses are
# means over 10 steps, because a step has some 40 targets. A rise of more than 0.5 is a
# spike, an end above 2.9 no learning. Gradients are sums of absolute values of the last
# matrix of the feed-forward. Everything but the arrangement is the same in all runs:
# hidden 64, Xavier-normal weights before the arrangement's gain, seed, data, clipping at
# CLIP (1; 0 = none), learning rate LR (1e-3) after WARMUP (0.1) of the STEPS (300), then
# constant. On one thread in f32 a run of 200 layers takes a minute. LAYERS, INIT, ARCHS
# and NORMGLUE can be set too. Runs that OUTPUT holds already are not made again.

set -e
output=${1:-$(mktemp -d)}
program=${NORMGLUE:-build/normglue}
layers=${LAYERS:-200} steps=${STEPS:-300} rate=${LR:-1e-3} warmup=${WARMUP:-0.1}
clip=${CLIP:-1} init=${INIT:-xavier_normal}

mkdir -p "$output"
awk 'BEGIN {
    srand(1)
    for (line = 0; line < 2000; line++) {
        letter = sprintf("%c", 97 + int(rand() * 26))
        text = letter
        for (i = 1; i < 61; i++)
            text = text " " letter
        print text "\n"
    }
}' >"$output/text.txt"
"$program" tokenizer train --vocab-size 300 --output "$output/tok" --overwrite \
    "$output/text.txt" >"$output/tok.log" 2>&1

# train ARCH RUN
train() {
    "$program" pretrain --arch "$1" --tokenizer "$output/tok" \
        --train "$output/text.txt" --cache-dir "$output/data" \
        --num-hidden-layers "$layers" --hidden-size 64 --num-attention-heads 2 \
        --intermediate-size 256 --init "$init" --max-seq-length 64 \
        --per-device-train-batch-size 4 --max-steps "$steps" --learning-rate "$rate" \
        --warmup-ratio "$warmup" --max-grad-norm "$clip" --lr-scheduler-type constant \
        --save-steps "$steps" --logging-steps 1 --threads 1 --dtype f32 \
        --progress never --overwrite --output "$2" >"$2.log" 2>&1
}

echo "$layers layers, hidden 64, $steps steps, learning rate $rate, warm-up $warmup," \
    "clipping $clip, $init"
printf '%-12s %8s %8s %8s %10s %10s %8s\n' arch first last rise 'grad first' \
    'grad last' seconds
for arch in ${ARCHS:-deepnorm preln normformer magneto postln}; do
    run=$output/$arch-$layers-$steps-$rate-$warmup-$clip-$init
    [ -e "$run/trainer_state.json" ] || train "$arch" "$run" ||
        echo "$arch: $(tail -n 1 "$run.log")"
    seconds=$(sed -n 's/.*"seconds": \([0-9.]*\).*/\1/p' "$run/timing.jsonl" | tail -n 1)
    awk -v arch="$arch" -v seconds="$seconds" '
        function field(name) {
            if (!match($0, "\"" name "\": [^,}]*"))
                return ""
            return substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4)
        }
        field("grad_norm") != "" {
            n++
            sum += field("loss") - window[n % 10]
            window[n % 10] = field("loss")
            mean = sum / (n < 10 ? n : 10)
            if (n == 10) first = best = mean
            if (n > 10 && mean - best > rise) rise = mean - best
            if (mean < best) best = mean
            lower = field("grad_fc2_first")
            upper = field("grad_fc2_last")
        }
        END {
            verdict = (rise > 0.5 ? "spike" : mean > 2.9 ? "no learning" : "trains")
            printf "%-12s %8.3f %8.3f %8.3f %10.2g %10.2g %8.0f  %s\n", arch, first,
                mean, rise, lower, upper, seconds, verdict
        }' "$run/metrics.jsonl"
done
