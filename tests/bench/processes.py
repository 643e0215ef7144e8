"""processes - programs that run steps on command, and the clock beside them.

A process is started with "key=value" words, says in a line what it is, and answers each
line "step COUNT LENGTHS" with seconds. Two of them take turns, so that both see the same
machine; the one that waits sleeps in a read. A repetition counts only if everything else
used less than 3 % of the machine meanwhile (/proc/stat, hypervisor included); otherwise
it is done again, at most TRIES times.
"""
import os
import subprocess
import sys
import time

TICK = os.sysconf("SC_CLK_TCK")
CPUS = os.cpu_count()
TRIES = 12
LEAST_SECONDS = 0.8  # of a repetition: short steps are repeated within it


class Failed(Exception):
    """Why a row has no figure."""


def machine_seconds():
    """Processor time of everything since boot: user, nice, system, irq, softirq, steal."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return (sum(ticks[:3]) + sum(ticks[5:])) / TICK


def available_gigabytes():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) / 1024 ** 2


def wait_until_quiet(most=60):
    end = time.monotonic() + most
    while time.monotonic() < end:
        before = machine_seconds()
        time.sleep(0.2)
        if machine_seconds() - before < 0.03:
            return


class Process:
    def __init__(self, command, environment=None):
        self.command = command
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env=dict(os.environ, **(environment or {})))
        self.about = self.read()
        self.counts = {}  # work: how often a repetition runs it

    def read(self):
        line = self.child.stdout.readline()
        if not line:
            raise Failed("%s ended with code %s" % (" ".join(self.command[-6:]), self.child.wait()))
        return line.strip()

    def ask(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        return {key: float(value) for key, value in (word.split("=") for word in self.read().split())}

    def cpu_seconds(self):
        with open("/proc/%d/stat" % self.child.pid) as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def peak_megabytes(self):
        with open("/proc/%d/status" % self.child.pid) as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

    def warm_up(self, work):
        """Seconds of a step once it has run before; how often a repetition runs it follows."""
        seconds = self.ask("step 1 " + work)["step"]
        if seconds < 10:
            seconds = self.ask("step 1 " + work)["step"]
        self.counts[work] = max(1, round(LEAST_SECONDS / seconds))
        return seconds

    def repetition(self, work):
        """Answer of a repetition during which the machine was quiet."""
        if work not in self.counts:
            self.warm_up(work)
        for _ in range(TRIES):
            wait_until_quiet()
            if self.counts[work] > 1:  # threads are awake and caches filled, as in a long run
                self.ask("step %d %s" % (self.counts[work] // 4 + 1, work))
            others = machine_seconds() - self.cpu_seconds()
            begin = time.monotonic()
            answer = self.ask("step %d %s" % (self.counts[work], work))
            taken = time.monotonic() - begin
            others = machine_seconds() - self.cpu_seconds() - others
            if others < 0.03 * CPUS * taken + 0.03:
                return answer
            print("  not quiet: others took %.2f of %.2f s" % (others, CPUS * taken), file=sys.stderr)
        raise Failed("no quiet repetition in %d" % TRIES)

    def close(self):
        self.child.stdin.close()
        self.child.wait()
        self.child.stdout.close()
