"""rows - the goals: what is measured, by which ratio, and what it should reach."""
import math
import statistics

import corpus
import glue

LEAST, MOST = ">=", "<="


class Row:
    """`measure(lab)` gives five ratios and a note; `goal` is the least or the most wanted."""

    def __init__(self, name, way, goal, measure):
        self.name, self.way, self.goal, self.measure = name, way, goal, measure

    def goal_text(self):
        return "%s %g" % (self.way, self.goal)

    def reaches(self, ratio):
        return ratio >= self.goal if self.way == LEAST else ratio <= self.goal

    def verdict(self, ratios):
        reached = [self.reaches(ratio) for ratio in ratios]
        return "skipped" if not reached else "met" if all(reached) else "reached" if any(reached) else "MISSED"


def median_step(answers):
    return statistics.median(answer["step"] for answer in answers)


def seconds_note(pairs, them, us="ours"):
    theirs, ours = zip(*pairs)
    return "%s %.4g s, %s %.4g s" % (them, median_step(theirs), us, median_step(ours))


# ---- Works. ----

BASE = dict(layers=12, hidden=768, heads=12, ffn=3072, vocab=50265, dropout=0.1, threads=2)
DTYPES = ("f32", "bf16")


def work(task, dtype, lengths, **more):
    return dict(BASE, task=task, dtype=dtype, lengths=lengths, **more)


def small(layers, hidden):
    return dict(layers=layers, hidden=hidden, heads=hidden // 64, ffn=4 * hidden)


CLS = {dtype: work("cls", dtype, "128x32") for dtype in DTYPES}
MLM = {dtype: work("mlm", dtype, "128x32") for dtype in DTYPES}
LONG = {"f32": work("mlm", "f32", "512x16", gigabytes=20, apart=True),
        "bf16": work("mlm", "bf16", "512x16", gigabytes=19)}
NO_DROPOUT = dict(LONG["bf16"], dropout=0, gigabytes=11)
HF = dict(LONG["bf16"], model="transformers", gigabytes=21, apart=True)
# 32 quantiles of a log-normal distribution of mean 40 (median 34, sigma 0.57), at most 128.
REAL_LENGTHS = [min(128, round(34 * math.exp(0.57 * statistics.NormalDist().inv_cdf((i + 0.5) / 32))))
                for i in range(32)]
REAL = work("cls", "bf16", ",".join(map(str, REAL_LENGTHS)), pad=128)


# ---- Beside PyTorch. ----

def time_row(name, goal, what):
    def measure(lab):
        pairs, _ = lab.beside_peer(what)
        how = ", eager attention" if pairs[0][0]["eager"] else ""
        apart = ", one after the other" if what.get("apart") else ""
        return ([theirs["step"] / ours["step"] for theirs, ours in pairs],
                seconds_note(pairs, "PyTorch") + how + apart)
    return Row(name, LEAST, goal, measure)


def memory_row(name, goal, what):
    def measure(lab):
        _, (theirs, ours) = lab.beside_peer(what)
        return [ours / theirs], "PyTorch %.0f MB, ours %.0f MB" % (theirs, ours)
    return Row(name, MOST, goal, measure)


def tpp_row(name, goal, what, peer_by_tpp):
    """TPP cannot be installed here: PyTorch / TPP as it was measured on another machine."""
    def measure(lab):
        pairs, _ = lab.beside_peer(what)
        return ([theirs["step"] / ours["step"] / peer_by_tpp for theirs, ours in pairs],
                "computed: PyTorch / ours over PyTorch / TPP = %g (Zen 4, PyTorch 2.15)" % peer_by_tpp)
    return Row(name, LEAST, goal, measure)


def glue_row(name, goal, pad):
    def measure(lab):
        epochs = lab.once("glue", lambda: glue.measure(lab, work))
        return [epoch[pad] for epoch in epochs], glue.NOTE
    return Row(name, LEAST, goal, measure)


# ---- Ours beside ours. ----

def own_row(name, way, goal, a, b, names):
    def measure(lab):
        pairs = lab.turns((lab.ours(a), a["lengths"]), (lab.ours(b), b["lengths"]))
        return [x["step"] / y["step"] for x, y in pairs], seconds_note(pairs, *names)
    return Row(name, way, goal, measure)


def arrangement_row(arch, is_batch):
    """Few layers and a cheap head: a norm weighs more than in the whole of base."""
    no_dropout = arch == "precrms"
    what = work("cls", "bf16", "128x32", **({"dropout": 0} if no_dropout else {}))
    what["layers"] = 3
    goal = 1.02 if arch == "normformer" else 1.15 if is_batch else 1.05
    return own_row("%s / preln, 3 layers, bf16%s" % (arch, ", dropout 0" if no_dropout else ""), MOST, goal,
                   dict(what, arch=arch), dict(what, arch="preln"), (arch, "preln"))


SIZES = (512, 1024, 4096, 16384, 65536)


def scaling_row(name, goal, part, per_token):
    """The largest over the smallest cost among steps of 512 to 65,536 tokens."""
    def measure(lab):
        rounds = lab.once("scaling", lambda: measure_scaling(lab))
        costs = [[part(answer) / (tokens if per_token else 1) for tokens, answer in zip(SIZES, answers)]
                 for answers in rounds]
        medians = [statistics.median(column) for column in zip(*costs)]
        note = ", ".join("%d: %.4g %s" % (n, c * (1e6 if per_token else 1e3), "us" if per_token else "ms")
                         for n, c in zip(SIZES, medians))
        return [max(row) / min(row) for row in costs], note
    return Row(name, MOST, goal, measure)


def measure_scaling(lab):
    what = dict(work("cls", "bf16" if lab.has_bf16 else "f32", "128x%d" % (SIZES[-1] // 128)), layers=4)
    process = lab.ours(what)
    return lab.turns(*[(process, "128x%d" % (n // 128)) for n in SIZES])


def corpus_row():
    def measure(lab):
        small_peak, large_peak = corpus.measure(lab)
        return [large_peak / small_peak], "%.0f MB, %.0f MB" % (large_peak, small_peak)
    return Row("peak memory, corpus of %d MB / %d MB" % (corpus.LARGE, corpus.SMALL), MOST, 1.05, measure)


# ---- Beside what the machine can do. ----

def layer_list(what):
    """Linear layers of our step as (rows, outputs, inputs, times), the last layer cut."""
    n, outputs = tokens_of(what), outputs_of(what)
    d, f, layers = what["hidden"], what["ffn"], what["layers"]
    return [(n, 3 * d, d, layers - 1), (n, d, d, layers - 1), (n, f, d, layers - 1), (n, d, f, layers - 1),
            (n, 2 * d, d, 1), (outputs, d, d, 2), (outputs, f, d, 1), (outputs, d, f, 1)]


def lengths_of(what):
    length, times = map(int, what["lengths"].split("x"))
    return [length] * times


def tokens_of(what):
    return sum(lengths_of(what))


def outputs_of(what):
    return len(lengths_of(what))


def flops_of(what):
    """Products really done: three a linear layer; in attention two forward and five backward."""
    linear = sum(6 * m * n * k * times for m, n, k, times in layer_list(what))
    pairs = sum(length ** 2 for length in lengths_of(what))
    return linear + 14 * pairs * what["hidden"] * (what["layers"] - 1)


def measure_rates(lab, what):
    ours, limit = lab.ours(what), lab.products(what["dtype"], what["threads"])
    return lab.turns((ours, what["lengths"]), (limit, products_of(what)), (limit, "peak"))


def rate_row(name, goal, what, place):
    """Our rate over that of the products alone (place 1) or of registers (place 2)."""
    def measure(lab):
        answers = lab.once("rates " + what["dtype"], lambda: measure_rates(lab, what))
        rates = [(flops_of(what) / answer[0]["step"], answer[place]["rate"]) for answer in answers]
        medians = [statistics.median(side) / 1e9 for side in zip(*rates)]
        return [a / b for a, b in rates], "%.0f of %.0f GF/s" % tuple(medians)
    return Row(name, LEAST, goal, measure)


def products_of(what):
    return ",".join("%d:%d:%d:%d" % layer for layer in layer_list(what))


# ---- The table. ----

def peer_rows():
    rows = [
        time_row("classification 32 x 128, f32", 1.4, CLS["f32"]),
        time_row("classification 32 x 128, bf16", 1.6, CLS["bf16"]),
        time_row("MLM 32 x 128, f32", 1.65, MLM["f32"]),
        time_row("MLM 32 x 128, bf16", 1.85, MLM["bf16"]),
        time_row("MLM 16 x 512, f32", 2.1, LONG["f32"]),
        time_row("MLM 16 x 512, bf16", 3.0, LONG["bf16"]),
        time_row("MLM 16 x 512, dropout 0, bf16", 1.45, NO_DROPOUT),
        time_row("MLM 16 x 512, transformers' RobertaForMaskedLM, bf16", 4.5, HF),
        time_row("real-life lengths, classification, bf16", 4.7, REAL),
        glue_row("GLUE epoch, PyTorch padding to 128, bf16", 5.0, "128"),
        glue_row("GLUE epoch, PyTorch padding dynamically, bf16", 2.7, "longest"),
        time_row("evaluation 32 x 128, f32", 1.35, dict(CLS["f32"], train=0)),
        time_row("evaluation 32 x 128, bf16", 1.5, dict(CLS["bf16"], train=0)),
        tpp_row("TPP, classification, f32", 1.2, CLS["f32"], 1.16),
        tpp_row("TPP, classification, bf16", 1.15, CLS["bf16"], 1.41),
        tpp_row("TPP, MLM 16 x 512, bf16", 1.7, LONG["bf16"], 1.75),
        tpp_row("TPP, real-life lengths, bf16", 1.25, REAL, 3.8),
        memory_row("peak memory, classification 32 x 128, f32", 0.45, CLS["f32"]),
        memory_row("peak memory, classification 32 x 128, bf16", 0.45, CLS["bf16"]),
        memory_row("peak memory, MLM 16 x 512, f32", 0.30, LONG["f32"]),
        memory_row("peak memory, MLM 16 x 512, bf16", 0.30, LONG["bf16"]),
        memory_row("peak memory, MLM 16 x 512, dropout 0, bf16", 0.60, NO_DROPOUT),
    ]
    for layers, hidden in ((2, 128), (4, 384)):
        for tokens in (1024, 4096):
            for dtype, goal in zip(DTYPES, (2.0, 2.5)):
                what = dict(work("mlm", dtype, "128x%d" % (tokens // 128)), **small(layers, hidden))
                rows.append(time_row("small %d x %d, MLM %d tokens, %s" % (layers, hidden, tokens, dtype), goal, what))
    return rows


def own_rows(presets):
    rows = []
    for dtype, alone, peak in zip(DTYPES, (0.95, 0.92), (0.88, 0.86)):
        rows.append(rate_row("flops / oneDNN's products alone, %s" % dtype, alone, CLS[dtype], 1))
        rows.append(rate_row("flops / peak of registers, %s" % dtype, peak, CLS[dtype], 2))
    for dtype in DTYPES:
        rows.append(own_row("normformer / preln, MLM 32 x 128, %s" % dtype, MOST, 1.02,
                            dict(MLM[dtype], arch="normformer"), dict(MLM[dtype], arch="preln"),
                            ("normformer", "preln")))
    rows += [arrangement_row(arch, is_batch) for arch, is_batch in presets if arch != "preln"]
    for dtype in DTYPES:
        rows.append(own_row("1 thread / 2 threads, %s" % dtype, LEAST, 1.9, dict(CLS[dtype], threads=1), CLS[dtype],
                            ("1 thread", "2 threads")))
    rows.append(scaling_row("forward and backward a token, most / least", 1.10,
                            lambda answer: answer["step"] - answer["update"], True))
    rows.append(scaling_row("update, most / least", 1.10, lambda answer: answer["update"], False))
    rows.append(corpus_row())
    return rows


def make_rows(lab):
    lines = lab.run("bench_step", "presets").splitlines()
    presets = [(arch, kind == "batch") for arch, kind in (line.split() for line in lines)]
    return peer_rows() + own_rows(presets)
