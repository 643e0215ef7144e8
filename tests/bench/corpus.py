"""corpus - does a longer corpus take more memory? Peaks of whole pretraining commands."""
import os
import random
import subprocess

from processes import Failed

SMALL, LARGE = 2, 40  # megabytes
MODEL = ("--size tiny --max-seq-length 128 --per-device-train-batch-size 32 --max-steps 3 --save-steps 3 "
         "--threads 2 --progress never --overwrite").split()


def write_text(path, megabytes):
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(5000)]
    with open(path, "w") as file:
        while file.tell() < megabytes * 1e6:
            file.write(" ".join(draw.choices(words, k=20)) + "\n")


def peak_megabytes(command):
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise Failed("%s ended with status %d" % (" ".join(command[:3]), status))
    return usage.ru_maxrss / 1024


def measure(lab):
    """Peaks in MB of pretraining on the small and on the large corpus."""
    peaks = []
    tokenizer = os.path.join(lab.folder, "tokenizer")
    for megabytes in (SMALL, LARGE):
        text = os.path.join(lab.folder, "text")
        write_text(text, megabytes)
        if not peaks:
            peak_megabytes([lab.normglue, "tokenizer", "train", "--vocab-size", "8000", "--output", tokenizer, text])
        run = os.path.join(lab.folder, "run%d" % megabytes)
        peaks.append(peak_megabytes([lab.normglue, "pretrain", "--tokenizer", tokenizer, "--train", text,
                                     "--output", run] + MODEL))
    return peaks
