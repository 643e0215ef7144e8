"""rows - the goals: what is measured, by which ratio, and what it should reach."""
import statistics

LEAST, MOST = ">=", "<="


class Row:
    """`measure(lab)` gives five ratios and a note; goal is the least or the most wanted."""

    def __init__(self, name, way, goal, measure):
        self.name, self.way, self.goal, self.measure = name, way, goal, measure

    def goal_text(self):
        return "%s %g" % (self.way, self.goal)

    def reaches(self, ratio):
        return ratio >= self.goal if self.way == LEAST else ratio <= self.goal

    def verdict(self, ratios):
        reached = [self.reaches(ratio) for ratio in ratios]
        return "met" if all(reached) else "reached" if any(reached) else "MISSED"


BASE = dict(layers=12, hidden=768, heads=12, ffn=3072, vocab=50265, dropout=0.1, threads=2)


def work(task, dtype, lengths, **more):
    return dict(BASE, task=task, dtype=dtype, lengths=lengths, **more)


def seconds_note(pairs, them="PyTorch"):
    theirs, ours = (statistics.median(side) for side in zip(*pairs))
    return "%s %.4g s, ours %.4g s" % (them, theirs, ours)


def beside_peer(name, goal, what):
    def measure(lab):
        pairs, _ = lab.beside_peer(what)
        return [theirs / ours for theirs, ours in pairs], seconds_note(pairs)
    return Row(name, LEAST, goal, measure)


# The works that several rows look at.
CLS = {dtype: work("cls", dtype, "128x32") for dtype in ("f32", "bf16")}
MLM = {dtype: work("mlm", dtype, "128x32") for dtype in ("f32", "bf16")}
LONG = {dtype: work("mlm", dtype, "512x16") for dtype in ("f32", "bf16")}
NO_DROPOUT = work("mlm", "bf16", "512x16", dropout=0)
HF = work("mlm", "bf16", "512x16", model="transformers")

# Log-normal with mean 40 (median 34, sigma 0.57), at most 128: quantiles of 32 sequences.
REAL_LENGTHS = ",".join(str(min(128, round(34 * 2.718281828 ** (0.57 * z)))) for z in [
    statistics.NormalDist().inv_cdf((i + 0.5) / 32) for i in range(32)])
REAL = work("cls", "bf16", REAL_LENGTHS, pad=128)

ROWS = [
    beside_peer("classification 32 x 128, f32", 1.4, CLS["f32"]),
    beside_peer("classification 32 x 128, bf16", 1.6, CLS["bf16"]),
    beside_peer("MLM 32 x 128, f32", 1.65, MLM["f32"]),
    beside_peer("MLM 32 x 128, bf16", 1.85, MLM["bf16"]),
    beside_peer("MLM 16 x 512, f32", 2.1, LONG["f32"]),
    beside_peer("MLM 16 x 512, bf16", 3.0, LONG["bf16"]),
    beside_peer("MLM 16 x 512, dropout 0, bf16", 1.45, NO_DROPOUT),
    beside_peer("MLM 16 x 512, transformers, bf16", 4.5, HF),
    beside_peer("real-life lengths, classification, bf16", 4.7, REAL),
]
