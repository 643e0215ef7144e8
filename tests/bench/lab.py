"""lab - starts processes of both sides, lets them take turns, keeps what was measured."""
import json
import os
import subprocess

import settings
from processes import Failed, Process, available_gigabytes

HERE = os.path.dirname(os.path.abspath(__file__))


class Lab:
    def __init__(self, options, folder):
        self.build, self.glue, self.folder = options.build, options.glue, folder
        self.rounds = options.rounds
        self.peers = settings.find_peers(options.peer, folder, options.as_installed)
        self.normglue = os.path.join(options.build, "normglue")
        self.has_bf16 = "bf16" in self.run("bench_step", "layers=1", "vocab=99", "lengths=8").split(",")[2]
        self.kept, self.running, self.abouts = {}, [], []

    def program(self, name):
        return os.path.join(self.build, "tests", name)

    def run(self, name, *words):
        return subprocess.run([self.program(name), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              text=True, check=True).stdout

    def once(self, name, function):
        """What the function gave when it was first called under this name."""
        if name not in self.kept:
            self.kept[name] = function()
        return self.kept[name]

    # ---- Processes. ----

    def start(self, command, environment=None):
        process = Process(command, environment)
        self.running.append(process)
        if process.about not in self.abouts:
            self.abouts.append(process.about)
        return process

    def close(self, process):
        self.running.remove(process)
        process.close()

    def close_all(self):
        while self.running:
            self.close(self.running[-1])

    def check_dtype(self, dtype):
        if dtype == "bf16" and not self.has_bf16:
            raise Failed("no bf16: the processor does not multiply it")

    def ours(self, work):
        self.check_dtype(work["dtype"])
        return self.start([self.program("bench_step")] + settings.words(work, settings.PEER_KEYS))

    def products(self, dtype, threads):
        self.check_dtype(dtype)
        return self.start([self.program("bench_products"), "dtype=" + dtype, "threads=%d" % threads])

    def peer(self, work):
        """PyTorch; of several the one whose step is the shortest."""
        self.check_dtype(work["dtype"])
        able = [p for p in self.peers if work.get("model") != "transformers" or p.transformers]
        if not able:
            raise Failed("no transformers" if self.peers else "no PyTorch")
        words = settings.words(work, settings.OUR_KEYS)
        best, least = None, None
        for peer in able:
            process = self.start([peer.python, os.path.join(HERE, "torch_step.py")] + words, peer.environment)
            seconds = process.warm_up(work["lengths"]) if len(able) > 1 else 0
            if best is not None:
                self.close(best if seconds < least else process)
            if best is None or seconds < least:
                best, least = process, seconds
        return best

    # ---- Measurements. ----

    def beside_peer(self, work):
        """Five pairs of answers, PyTorch's and ours, and the peaks of both in MB. A work may say
        how many gigabytes must be free, and that both do not fit: ours then runs after PyTorch."""
        return self.once(json.dumps(work, sort_keys=True), lambda: self.measure_beside(work))

    def measure_beside(self, work):
        if self.peers and available_gigabytes() < work.get("gigabytes", 0):
            raise Failed("needs %d GB of free memory" % work["gigabytes"])
        lengths = work["lengths"]
        peer = self.peer(work)
        if work.get("apart"):
            theirs = [peer.repetition(lengths) for _ in range(self.rounds)]
            peaks = [peer.peak_megabytes()]
            self.close(peer)
            ours = self.ours(work)
            answers = [ours.repetition(lengths) for _ in range(self.rounds)]
            return list(zip(theirs, answers)), peaks + [ours.peak_megabytes()]
        ours = self.ours(work)
        pairs = self.turns((peer, lengths), (ours, lengths))
        return pairs, [peer.peak_megabytes(), ours.peak_megabytes()]

    def turns(self, *sides):
        """Five tuples of answers of processes that take turns; a side is (process, work)."""
        for process, work in sides:
            process.warm_up(work)
        return [tuple(process.repetition(work) for process, work in sides) for _ in range(self.rounds)]
