"""glue - the cost of a fine-tuning epoch at the lengths that GLUE's training sets have.

Of each of the nine tasks a fixed sample of batches of 32 is drawn. Ours runs them. PyTorch
runs 32 sequences of each of LENGTHS tokens; what it costs to pad a batch to its longest
sequence, or to 128, is read between these. A round's ratio is the geometric mean over the
tasks of PyTorch's seconds over ours.
"""
import gzip
import os
import random
import statistics
import subprocess

from processes import Failed

# Folder and columns of the texts; CoLA's file has no header.
TASKS = {"CoLA": (3,), "SST-2": ("sentence",), "MRPC": ("#1 String", "#2 String"),
         "STS-B": ("sentence1", "sentence2"), "QQP": ("question1", "question2"),
         "MNLI": ("sentence1", "sentence2"), "QNLI": ("question", "sentence"),
         "RTE": ("sentence1", "sentence2"), "WNLI": ("sentence1", "sentence2")}
BATCHES, BATCH, MOST = 2, 32, 128
LENGTHS = (16, 32, 64, 96, 128)
NOTE = "geometric mean of 9 tasks, %d batches each" % BATCHES
VOCABULARY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "tokenizer")


def sample(path, columns):
    """The texts of a few lines of a training set, the same ones every time."""
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        lines = [line.split("\t") for line in file.read().rstrip("\n").split("\n")]
    if isinstance(columns[0], str):
        header, lines = lines[0], lines[1:]
        columns = [header.index(column) for column in columns]
    chosen = random.Random(1).sample([line for line in lines if len(line) > max(columns)], BATCHES * BATCH)
    return [[line[column] for column in columns] for line in chosen]


def tokenizer_folder(folder):
    for name, packed in (("vocab.json", "gpt2-vocab.json.gz"), ("merges.txt", "merges.txt.gz")):
        with gzip.open(os.path.join(VOCABULARY, packed)) as file, open(os.path.join(folder, name), "wb") as out:
            out.write(file.read())
    return folder


def count_tokens(lab, texts):
    done = subprocess.run([lab.normglue, "tokenizer", "encode", "--tokenizer", tokenizer_folder(lab.folder)],
                          input="".join(text + "\n" for text in texts), capture_output=True, text=True)
    if done.returncode:
        raise Failed("the tokenizer: " + done.stderr.strip())
    return [len(line.split()) for line in done.stdout.split("\n")[:len(texts)]]


def batches_of(lab, folder, columns):
    """Lengths with special tokens: <s> A </s>, or <s> A </s></s> B </s>."""
    rows = sample(os.path.join(lab.glue, folder, "train.tsv"), columns)
    counts = [count_tokens(lab, column) for column in zip(*rows)]
    lengths = [min(MOST, sum(parts) + 2 * len(parts)) for parts in zip(*counts)]
    return [lengths[i:i + BATCH] for i in range(0, len(lengths), BATCH)]


def between(seconds, length):
    """Seconds at a length, on the line through the two nearest measured ones."""
    upper = next((i for i in range(1, len(LENGTHS) - 1) if length <= LENGTHS[i]), len(LENGTHS) - 1)
    low, high = LENGTHS[upper - 1], LENGTHS[upper]
    share = (length - low) / (high - low)
    return seconds[low] + share * (seconds[high] - seconds[low])


def measure(lab, work):
    """A round: {"128": ratio, "longest": ratio}."""
    if not lab.glue:
        raise Failed("no folder of GLUE tasks: --glue DIR or GLUE_DATA")
    tasks = [batches_of(lab, folder, columns) for folder, columns in TASKS.items()]
    peer = lab.peer(work("cls", "bf16", "%dx%d" % (MOST, BATCH)))
    ours = lab.ours(work("cls", "bf16", "%dx%d" % (MOST, BATCH)))
    return [one_round(peer, ours, tasks) for _ in range(lab.rounds)]


def one_round(peer, ours, tasks):
    theirs = {length: peer.repetition("%dx%d" % (length, BATCH))["step"] for length in LENGTHS}
    ratios = {"128": [], "longest": []}
    for batches in tasks:
        seconds = sum(ours.repetition(",".join(map(str, batch)))["step"] for batch in batches)
        ratios["128"].append(len(batches) * theirs[MOST] / seconds)
        ratios["longest"].append(sum(between(theirs, max(batch)) for batch in batches) / seconds)
    return {pad: statistics.geometric_mean(values) for pad, values in ratios.items()}
