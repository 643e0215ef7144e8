#!/usr/bin/env python3
"""Writes tests/data/pretrain/fill-mask-*: small models with random weights saved by transformers, and what its
fill-mask pipeline says about texts.jsonl. Run from the repository's root; needs torch and transformers."""
import json, os
import torch
from tokenizers import AddedToken
from transformers import (RobertaConfig, RobertaForMaskedLM, RobertaPreLayerNormConfig, RobertaPreLayerNormForMaskedLM,
                          RobertaTokenizerFast, pipeline)

ROOT = "tests/data/pretrain"
TEXTS = ["The old man went to the <mask>.", "<mask>", "a <mask> b<mask>c", "Two <mask> in a row: <mask> <mask>!",
         "na\u00efve caf\u00e9 <mask> \u6f22\u5b57 \u00a0 .", " leading space and <mask>  double", "do n't <mask> , it 's \"fine\" .",
         "</s> a special token and <mask>", "quote \" backslash \\ tab\t<mask>"]

def main():
    mask = AddedToken("<mask>", lstrip=True, normalized=False, special=True)  # as roberta-base has it
    tokenizer = RobertaTokenizerFast.from_pretrained(ROOT + "/tokenizer", mask_token=mask)
    for name, config, model in (("postln", RobertaConfig, RobertaForMaskedLM),
                                ("preln", RobertaPreLayerNormConfig, RobertaPreLayerNormForMaskedLM)):
        torch.manual_seed(1)
        c = config(vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
                   max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5, initializer_range=0.7)
        net = model(c).eval()
        for key, p in net.named_parameters():  # norms and biases that are not 1 and 0
            if p.dim() == 1: p.data += 0.3 * torch.randn_like(p)
        out = f"{ROOT}/fill-mask-{name}"
        os.makedirs(out, exist_ok=True)
        net.save_pretrained(out)
        os.chmod(out + "/model.safetensors", 0o644)
        fill = pipeline("fill-mask", model=net, tokenizer=tokenizer, top_k=5, device="cpu")
        with open(f"{out}/expected.jsonl", "w") as f:
            for text in TEXTS: f.write(json.dumps(fill(text), ensure_ascii=False) + "\n")
    with open(f"{ROOT}/fill-mask.txt", "w") as f: f.write("\n".join(TEXTS) + "\n")

main()
