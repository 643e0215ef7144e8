#!/usr/bin/env python3
"""torch_step - PyTorch's training steps on command, equal in work to bench_step.c.

usage: torch_step.py [key=value ...]    keys and defaults: KEYS below
A line "step COUNT LENGTHS" on stdin runs COUNT steps on sequences of such lengths
("128x32,40" = 32 of 128 tokens and one of 40), padded to the longest of them or to pad=,
and is answered by "step=SECONDS", the mean.

model=plain is a RoBERTa written for speed: one product for query, key and value, no mask
where nothing is padded, the LM head on the masked rows only. model=transformers is that
library's own. Both: AdamW fused, clipping at 1, bf16 by autocast, evaluation in
inference_mode. attention=sdpa is scaled_dot_product_attention, eager its formula; best
tries both on the first batch and keeps the faster. Tried with PyTorch 2.15, classification
of 32 x 128, bf16, on an AMD EPYC (Zen 5), two cores: sdpa 5.4 s, eager 4.4, with tcmalloc
4.0, with compile=1 besides 4.6; PyTorch 1.13 with eager 4.7. In f32: 14.0 s as installed
(MKL by AVX2), 8.0 with AVX-512, 6.2 with tcmalloc besides.
"""
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

KEYS = dict(task="mlm", dtype="f32", model="plain", attention="best", compile=0, layers=12, hidden=768,
            heads=12, ffn=3072, vocab=50265, dropout=0.1, masked=0.15, threads=2, train=1, pad=0, lengths="")
POSITIONS, PAD = 514, 1


def read_options(words):
    options = dict(KEYS)
    for word in words:
        key, value = word.split("=", 1)
        options[key] = type(KEYS[key])(value)
    return type("Options", (), options)


def read_lengths(text):
    lengths = []
    for word in text.split(","):
        length, _, times = word.partition("x")
        lengths += [int(length)] * int(times or 1)
    return lengths


# ---- The plain model. ----

class Attention(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.rate, self.options = o.heads, o.dropout, o
        self.qkv = nn.Linear(o.hidden, 3 * o.hidden)
        self.out = nn.Linear(o.hidden, o.hidden)

    def forward(self, x, mask):
        batch, length, hidden = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        rate = self.rate if self.training else 0.0
        if self.options.attention == "eager":
            scores = q @ k.transpose(-1, -2) / math.sqrt(hidden // self.heads)
            if mask is not None:
                scores = scores.masked_fill(~mask, -1e4)
            context = F.dropout(scores.softmax(-1), rate, self.training) @ v
        else:
            context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate)
        return self.out(context.transpose(1, 2).reshape(batch, length, hidden))


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.attention = Attention(o)
        self.attention_norm = nn.LayerNorm(o.hidden, 1e-5)
        self.up, self.down = nn.Linear(o.hidden, o.ffn), nn.Linear(o.ffn, o.hidden)
        self.norm = nn.LayerNorm(o.hidden, 1e-5)
        self.dropout = nn.Dropout(o.dropout)

    def forward(self, x, mask):
        x = self.attention_norm(x + self.dropout(self.attention(x, mask)))
        return self.norm(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Model(nn.Module):
    """Embeddings, layers, and the head of the task down to its mean loss."""

    def __init__(self, o):
        super().__init__()
        self.words = nn.Embedding(o.vocab, o.hidden, padding_idx=PAD)
        self.positions, self.types = nn.Embedding(POSITIONS, o.hidden), nn.Embedding(1, o.hidden)
        self.norm, self.dropout = nn.LayerNorm(o.hidden, 1e-5), nn.Dropout(o.dropout)
        self.layers = nn.ModuleList(Layer(o) for _ in range(o.layers))
        self.dense = nn.Linear(o.hidden, o.hidden)
        if o.task == "mlm":
            self.head_norm, self.bias = nn.LayerNorm(o.hidden, 1e-5), nn.Parameter(torch.zeros(o.vocab))
        else:
            self.classes = nn.Linear(o.hidden, 2)
        self.is_mlm = o.task == "mlm"
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, batch):
        where = torch.arange(2, batch.ids.shape[1] + 2)
        x = self.dropout(self.norm(self.words(batch.ids) + self.positions(where) + self.types.weight[0]))
        for layer in self.layers:
            x = layer(x, batch.mask)
        if self.is_mlm:
            x = self.head_norm(F.gelu(self.dense(x.flatten(0, 1)[batch.rows])))
            return F.cross_entropy(F.linear(x, self.words.weight, self.bias), batch.labels)
        x = self.dropout(torch.tanh(self.dense(self.dropout(x[:, 0]))))
        return F.cross_entropy(self.classes(x), batch.labels)


# ---- transformers' model. ----

def transformers_model(o):
    import transformers
    config = transformers.RobertaConfig(
        vocab_size=o.vocab, hidden_size=o.hidden, num_hidden_layers=o.layers, num_attention_heads=o.heads,
        intermediate_size=o.ffn, max_position_embeddings=POSITIONS, type_vocab_size=1, layer_norm_eps=1e-5,
        hidden_dropout_prob=o.dropout, attention_probs_dropout_prob=o.dropout, pad_token_id=PAD,
        bos_token_id=0, eos_token_id=2, num_labels=2, attn_implementation="sdpa")
    kind = transformers.RobertaForMaskedLM if o.task == "mlm" else transformers.RobertaForSequenceClassification
    model = kind(config)
    return model, lambda batch: model(input_ids=batch.ids, attention_mask=batch.attention,
                                      labels=batch.all_labels).loss


# ---- Batches and steps. ----

class Batch:
    """Tokens padded to one length; masked are the same rows of real tokens as in bench_step.c."""

    def __init__(self, o, lengths):
        width = max(o.pad, *lengths)
        real = torch.arange(width)[None] < torch.tensor(lengths)[:, None]
        self.ids = torch.full((len(lengths), width), PAD)
        count = int(real.sum())
        self.ids[real] = 5 + torch.arange(count) * 7919 % (o.vocab - 5)
        self.attention = real.long()
        self.mask = None if bool(real.all()) else real[:, None, None, :]
        if o.task == "mlm":
            masked = [n for n in range(count) if math.floor((n + 1) * o.masked) > math.floor(n * o.masked)]
            self.rows = real.flatten().nonzero().flatten()[masked]
            self.labels = self.ids.flatten()[self.rows]
            self.all_labels = torch.full((self.ids.numel(),), -100)
            self.all_labels[self.rows] = self.labels
            self.all_labels = self.all_labels.view_as(self.ids)
        else:
            self.labels = self.all_labels = torch.arange(len(lengths)) % 2


class Bench:
    def __init__(self, o):
        self.o = o
        self.train = o.train > 0
        if o.model == "transformers":
            self.model, self.loss = transformers_model(o)
        else:
            self.model = Model(o)
            self.loss = torch.compile(self.model) if o.compile else self.model
        self.model.train(self.train)
        self.optimizer = self.train and self.make_optimizer()

    def make_optimizer(self):
        settings = dict(lr=1e-5, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)
        try:
            return torch.optim.AdamW(self.model.parameters(), fused=True, **settings)
        except (TypeError, RuntimeError):  # PyTorch before 2.4 has none for the processor
            return torch.optim.AdamW(self.model.parameters(), **settings)

    def choose_attention(self, lengths):
        """On a part of the batch, which tells as much in less time."""
        if self.o.attention != "best" or self.o.model != "plain":
            return
        batch = Batch(self.o, lengths[:max(4, len(lengths) // 4)])
        seconds = {}
        for self.o.attention in ["eager"] + ["sdpa"] * hasattr(F, "scaled_dot_product_attention"):
            self.step(batch)
            begin = time.perf_counter()
            self.step(batch)
            seconds[self.o.attention] = time.perf_counter() - begin
        self.o.attention = min(seconds, key=seconds.get)

    def forward(self, batch):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.o.dtype == "bf16"):
            return self.loss(batch)

    def step(self, batch):
        if not self.train:
            with torch.inference_mode():
                return self.forward(batch)
        self.optimizer.zero_grad(set_to_none=True)
        self.forward(batch).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


def main():
    o = read_options(sys.argv[1:])
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    bench = Bench(o)
    version = "PyTorch %s" % torch.__version__
    if o.model == "transformers":
        import transformers
        version += ", transformers %s" % transformers.__version__
    print(version, flush=True)
    for line in sys.stdin:
        _, count, lengths = line.split()
        bench.choose_attention(read_lengths(lengths))
        batch = Batch(o, read_lengths(lengths))
        begin = time.perf_counter()
        for _ in range(int(count)):
            bench.step(batch)
        taken = (time.perf_counter() - begin) / int(count)
        print("step=%.6f eager=%d" % (taken, o.attention == "eager"), flush=True)


if __name__ == "__main__":
    main()
