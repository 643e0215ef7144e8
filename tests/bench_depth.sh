#!/bin/sh
# bench_depth - do 200 layers train? A line an arrangement: loss at the start and the end,
# the worst rise of the loss over its best so far, gradient norm at the end, seconds.
#
#   sh tests/bench_depth.sh [OUTPUT]
#
# The text is made up: each line is one letter many times, so that a masked token can be
# told from any other of its line; by frequency alone the loss is ln 26 = 3.26. Losses are
# means over 10 steps, because a step has some 40 targets. A rise of more than 0.5 is a
# spike, an end above 2.9 no learning. Everything but the arrangement is the same in all
# runs: hidden 64, Xavier-normal weights before the arrangement's gain, seed, data,
# learning rate (LR) after a tenth of the STEPS of warm-up. On one thread in f32 a run of
# 200 layers takes 1 to 2 minutes. LAYERS, STEPS, LR, ARCHS and NORMGLUE can be set.

set -e
output=${1:-$(mktemp -d)}
program=${NORMGLUE:-build/normglue}
layers=${LAYERS:-200}
steps=${STEPS:-300}
rate=${LR:-3e-3}

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
echo "$layers layers, hidden 64, $steps steps, learning rate $rate"
printf '%-12s %8s %8s %8s %10s %8s\n' arch first last rise 'grad norm' seconds
for arch in ${ARCHS:-deepnorm preln normformer magneto postln}; do
    run=$output/$arch
    "$program" pretrain --arch "$arch" --tokenizer "$output/tok" \
        --train "$output/text.txt" --cache-dir "$output/data" \
        --num-hidden-layers "$layers" --hidden-size 64 --num-attention-heads 2 \
        --intermediate-size 256 --init xavier_normal --max-seq-length 64 \
        --per-device-train-batch-size 4 --max-steps "$steps" --learning-rate "$rate" \
        --warmup-ratio 0.1 --lr-scheduler-type constant --save-steps "$steps" \
        --logging-steps 1 --threads 1 --dtype f32 --progress never --overwrite \
        --output "$run" 2>"$run.log" >/dev/null || echo "$arch: $(tail -n 1 "$run.log")"
    seconds=$(sed -n 's/.*"seconds": \([0-9.]*\).*/\1/p' "$run/timing.jsonl" | tail -n 1)
    sed -n 's/.*"loss": \([^,]*\), "grad_norm": \([^,]*\),.*/\1 \2/p' \
        "$run/metrics.jsonl" | awk -v arch="$arch" -v seconds="$seconds" '
        {
            sum += $1 - window[NR % 10]
            window[NR % 10] = $1
            mean = sum / (NR < 10 ? NR : 10)
            if (NR == 10) first = best = mean
            if (NR > 10 && mean - best > rise) rise = mean - best
            if (mean < best) best = mean
        }
        END {
            verdict = (rise > 0.5 ? "spike" : mean > 2.9 ? "no learning" : "trains")
            printf "%-12s %8.4f %8.4f %8.4f %10.3g %8.0f  %s\n", arch, first, mean,
                rise, $2, seconds, verdict
        }'
done
