#!/bin/sh
# run - the tour of `make demo`: text, tokenizer, masked language model, GLUE scores.
# Reads only this folder, writes only ./demo-output (made anew). NORMGLUE = the program.
set -e
cd "$(dirname "$0")/.."
out=demo-output

step() {
    printf '\n==> %s\n' "$*"
}
run() {
    printf '$ normglue %s\n' "$*"
    "${NORMGLUE:-./normglue}" "$@"
}

rm -rf "$out"
mkdir "$out"

step "1. Train a byte-level BPE tokenizer on 1.7 MB of text"
run tokenizer train --vocab-size 4000 --output $out/tokenizer demo/text/*.txt

step "2. Pretrain a small NormFormer: guess the words behind <mask>"
run pretrain --arch normformer --tokenizer $out/tokenizer \
    --train demo/text/*.txt --valid demo/valid.txt --output $out/model \
    --num-hidden-layers 2 --hidden-size 128 --num-attention-heads 4 \
    --intermediate-size 512 --max-seq-length 128 --hidden-dropout-prob 0 \
    --attention-probs-dropout-prob 0 --mlm-probability 0.3 \
    --per-device-train-batch-size 16 --learning-rate 2e-3 --max-steps 3000 \
    --eval-steps 500 --save-steps 3000 --logging-steps 1000

step "3. Ask the model for a masked word"
echo "Agricultural <mask>: milk, wheat, maize, potatoes" |
    run fill-mask --model $out/model --top-k 3

step "4. Fine-tune on samples of three GLUE tasks, two seeds each, and print the scores"
run glue run --model $out/model --data demo/GLUE --tasks mnli,qnli,wnli --seeds 2 \
    --output $out/scores --num-train-epochs 3 --learning-rate 3e-4 \
    --max-seq-length 96 --logging-steps 1000

step "5. Let a fine-tuned model judge a pair: does the sentence answer the question?"
printf 'Where is the lake?\tThe lake is in the north of the country.\n' |
    run predict --model $out/scores/qnli/seed-1

step "Done: everything is in $out/"
