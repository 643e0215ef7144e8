#!/usr/bin/env python3
"""goals - speed and memory of training beside PyTorch, oneDNN and the processor: a row a goal.

  make bench [PYTHON=python3] [BENCH="--only PATTERN ..."]

A row is the median and the range of five ratios. What is compared takes turns in one run,
and only repetitions count during which the machine was quiet (processes.py). met = all
five reach the goal, reached = the range does, MISSED = none does. Peers are what is
installed, each with the settings printed below the table; torch_step.py says what it runs.
"""
import argparse
import fnmatch
import json
import os
import statistics
import sys
import tempfile
import time

import rows
import settings
from lab import Lab
from processes import Failed

HEAD = "%-52s %8s %7s  %-16s %-8s %s"


def print_row(result):
    ratios = result["ratios"]
    if ratios:
        spread = "%.3g .. %.3g" % (min(ratios), max(ratios)) if len(ratios) > 1 else "one"
        print(HEAD % (result["row"], result["goal"], "%.3g" % statistics.median(ratios), spread,
                      result["verdict"], result["note"]))
    else:
        print(HEAD % (result["row"], result["goal"], "", "", "skipped", result["note"]))
    sys.stdout.flush()


def measure(row, lab):
    begin = time.monotonic()
    print("%s ..." % row.name, file=sys.stderr)
    try:
        ratios, note = row.measure(lab)
    except Failed as failure:
        ratios, note = [], str(failure)
    finally:
        lab.close_all()
    seconds = time.monotonic() - begin
    print("  %.0f s" % seconds, file=sys.stderr)
    return {"row": row.name, "goal": row.goal_text(), "ratios": ratios, "note": note,
            "verdict": row.verdict(ratios), "seconds": round(seconds)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="PATTERN",
                        help="rows whose name contains it; * and ? are wild; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE as well")
    parser.add_argument("--peer", action="append", metavar="PYTHON",
                        help="an interpreter that has PyTorch; of several the fastest is taken "
                        "(default: this one and /usr/bin/python3)")
    parser.add_argument("--as-installed", action="store_true", help="PyTorch without the settings that make it faster")
    parser.add_argument("--glue", metavar="DIR", default=os.environ.get("GLUE_DATA"),
                        help="folder of the nine GLUE tasks (default: $GLUE_DATA)")
    parser.add_argument("--rounds", type=int, default=5, help="ratios a row (default: 5; 3 for a quick look)")
    parser.add_argument("--build", default="build", help="folder of the built programs")
    return parser.parse_args()


def is_chosen(row, patterns):
    return not patterns or any(fnmatch.fnmatch(row.name.lower(), "*%s*" % p.lower()) for p in patterns)


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(options, folder)
        chosen = [row for row in rows.make_rows(lab) if is_chosen(row, options.only)]
        if options.list:
            print("\n".join(row.name for row in chosen))
            return
        print(HEAD % ("", "goal", "median", "range", "", ""))
        results = []
        for row in chosen:
            results.append(measure(row, lab))
            print_row(results[-1])
        about = lab.abouts + [peer.settings for peer in lab.peers] + settings.machine()
        print("\n" + "\n".join(about))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"about": about, "rows": results}, file, indent=1)


if __name__ == "__main__":
    main()
