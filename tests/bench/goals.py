#!/usr/bin/env python3
"""goals - speed and memory of training beside PyTorch, oneDNN and the processor: a row a goal.

  make bench [PYTHON=python3] [BENCH="--only PATTERN ..."]

Every row is the median and the range of five ratios. What is compared takes turns in one
run, and only repetitions count during which the machine was quiet (processes.py). met =
all five reach the goal, reached = the range does, MISSED = none does.
"""
import argparse
import fnmatch
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import settings
from processes import Failed, Process

ROUNDS = 5


class Lab:
    """Starts processes of both sides and keeps what was measured."""

    def __init__(self, options, folder):
        self.options, self.peers = options, settings.find_peers(options.peer, folder)
        self.has_bf16 = "bf16" in subprocess.run(
            [self.program("bench_step"), "layers=1", "vocab=99", "lengths=8"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True).stdout.split(",")[2]
        self.pairs, self.peaks, self.abouts = {}, {}, []

    def program(self, name):
        return os.path.join(self.options.build, "tests", name)

    def ours(self, work):
        if work.get("dtype") == "bf16" and not self.has_bf16:
            raise Failed("no bf16: the processor does not multiply it")
        words = ["%s=%s" % item for item in work.items() if item[0] not in settings.PEER_KEYS]
        return self.note(Process([self.program("bench_step")] + words))

    def peer(self, work, peer):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_step.py")
        words = ["%s=%s" % item for item in work.items() if item[0] not in settings.OUR_KEYS]
        return self.note(Process([peer.python, script] + words, peer.environment))

    def best_peer(self, work):
        """The peer whose third step is the shortest, with that step behind it."""
        peers = [p for p in self.peers if work.get("model") != "transformers" or p.transformers]
        if not peers:
            raise Failed("no transformers" if self.peers else "no PyTorch")
        best = None
        for peer in peers:
            process = self.peer(work, peer)
            for _ in range(2):
                process.ask("step 1 " + work["lengths"])
            seconds = process.ask("step 1 " + work["lengths"])["step"]
            if best and best[0] <= seconds:
                process.close()
                continue
            if best:
                best[1].close()
            best = seconds, process
        return best[1]

    def note(self, process):
        if process.about not in self.abouts:
            self.abouts.append(process.about)
        return process

    def turns(self, a, b, work_a, work_b):
        """Five pairs of answers of two processes, one after the other."""
        count_a, count_b = a.warm_up(work_a), b.warm_up(work_b)
        return [(a.repetition(work_a, count_a), b.repetition(work_b, count_b)) for _ in range(ROUNDS)]

    def beside_peer(self, work):
        """Five pairs of seconds, PyTorch's and ours, of the same work; measured once."""
        key = json.dumps(work, sort_keys=True)
        if key not in self.pairs:
            peer = self.best_peer(work)
            ours = self.ours(work)
            pairs = self.turns(peer, ours, work["lengths"], work["lengths"])
            self.pairs[key] = [(theirs["step"], mine["step"]) for theirs, mine in pairs]
            self.peaks[key] = peer.peak_megabytes(), ours.peak_megabytes()
            peer.close()
            ours.close()
        return self.pairs[key], self.peaks[key]


def print_row(row, result):
    median = statistics.median(result["ratios"]) if result["ratios"] else None
    if median is None:
        print("%-58s %7s  %s" % (row.name, row.goal_text(), "skipped: " + result["note"]))
    else:
        print("%-58s %7s %7.2f  %-15s %-8s %s" % (
            row.name, row.goal_text(), median, "%.2f .. %.2f" % (min(result["ratios"]), max(result["ratios"])),
            row.verdict(result["ratios"]), result["note"]))
    sys.stdout.flush()


def measure(row, lab):
    begin = time.monotonic()
    print("%s ..." % row.name, file=sys.stderr)
    try:
        ratios, note = row.measure(lab)
    except Failed as failure:
        ratios, note = [], str(failure)
    print("  %.0f s" % (time.monotonic() - begin), file=sys.stderr)
    return {"row": row.name, "goal": row.goal_text(), "ratios": ratios, "note": note,
            "verdict": row.verdict(ratios) if ratios else "skipped"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="PATTERN", help="rows whose name contains it (* and ? are wild)")
    parser.add_argument("--list", action="store_true", help="print the rows' names")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--peer", action="append", metavar="PYTHON", help="an interpreter with PyTorch; repeat "
                        "it and the fastest is the peer (this one, and /usr/bin/python3)")
    parser.add_argument("--glue", metavar="DIR", default=os.environ.get("GLUE_DATA"), help="folder of the GLUE tasks")
    parser.add_argument("--build", default="build")
    return parser.parse_args()


def is_chosen(row, patterns):
    return not patterns or any(fnmatch.fnmatch(row.name.lower(), "*%s*" % p.lower()) for p in patterns)


def main():
    import rows
    options = parse()
    chosen = [row for row in rows.ROWS if is_chosen(row, options.only)]
    if options.list:
        print("\n".join(row.name for row in chosen))
        return
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(options, folder)
        print("%-58s %7s %7s  %-15s" % ("work", "goal", "median", "of five"))
        results = []
        for row in chosen:
            results.append(measure(row, lab))
            print_row(row, results[-1])
        about = lab.abouts + [peer.settings for peer in lab.peers] + settings.machine()
        print("\n" + "\n".join(about))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"about": about, "rows": results}, file, indent=1)


if __name__ == "__main__":
    main()
