"""settings - the interpreters that have PyTorch, and the environment in which each is fastest.

The C library MKL takes its AVX2 path on processors of other makers (half the rate of f32
products on AVX-512 machines) unless mkl_serv_intel_cpu_true() says otherwise: a library
loaded first says so. OpenBLAS 0.3.21 takes its AVX2 path on processors newer than itself
unless OPENBLAS_CORETYPE says otherwise. tcmalloc spares page faults where it is there.
"""
import collections
import ctypes.util
import json
import os
import platform
import subprocess
import sys

# Keys of a work that only the bench reads, with those that only one side reads.
BENCH_KEYS = ("gigabytes", "apart")
PEER_KEYS = BENCH_KEYS + ("model", "pad", "attention", "compile")
OUR_KEYS = BENCH_KEYS + ("arch",)

Peer = collections.namedtuple("Peer", "python environment transformers settings")


def words(work, left_out):
    """"key=value" a key of the work, as both sides read it."""
    return ["%s=%s" % (key, value) for key, value in work.items() if key not in left_out]


ASK = """
import importlib.util as i, json, torch
print(json.dumps([torch.__version__, torch.__config__.show(), i.find_spec("transformers") is not None]))
"""


def has_avx512():
    with open("/proc/cpuinfo") as file:
        return "avx512f" in file.read()


def mkl_switch(folder):
    """A library that makes MKL take the instructions which the processor has."""
    library = os.path.join(folder, "mkl_switch.so")
    code = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library]
    done = subprocess.run(command, input=code, text=True, capture_output=True)
    return library if done.returncode == 0 else None


def environment(config, folder, as_installed):
    """Variables for a PyTorch of this configuration, and what they are called."""
    if as_installed:
        return {}, ["as installed"]
    preload, names, variables = [], [], {}
    if "Math Kernel Library" in config and has_avx512():
        preload.append(mkl_switch(folder))
        names.append("MKL told to use AVX-512")
    elif has_avx512():
        variables["OPENBLAS_CORETYPE"] = "SkylakeX"
        names.append("OPENBLAS_CORETYPE=SkylakeX")
    tcmalloc = ctypes.util.find_library("tcmalloc_minimal") or ctypes.util.find_library("tcmalloc")
    if tcmalloc:
        preload.append(tcmalloc)
    names.append(tcmalloc or "malloc of the C library")
    variables["LD_PRELOAD"] = " ".join(filter(None, preload))
    return variables, names


def find_peers(pythons, folder, as_installed):
    found, versions = [], set()
    for python in pythons or [sys.executable, "/usr/bin/python3"]:
        done = subprocess.run([python, "-c", ASK], capture_output=True, text=True)
        if done.returncode:
            continue
        version, config, transformers = json.loads(done.stdout)
        if version not in versions:
            variables, names = environment(config, folder, as_installed)
            found.append(Peer(python, variables, transformers, "PyTorch %s: %s" % (version, ", ".join(names))))
        versions.add(version)
    return found


def machine():
    with open("/proc/cpuinfo") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return ["%s x %d, Linux %s" % (models[0] if models else platform.machine(), os.cpu_count(), platform.release())]
