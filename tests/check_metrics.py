"""check_metrics - compares glue/metrics.c with scikit-learn and SciPy on random vectors.

  python3 tests/check_metrics.py                 thousands of comparisons, prints the worst difference
  python3 tests/check_metrics.py --write FILE    the few vectors that tests/test_metrics.c reads

Needs numpy, scipy and scikit-learn; builds metrics.c as a shared library by itself. Not part
of `make test`."""
import ctypes, math, random, subprocess, sys, tempfile, warnings

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

warnings.filterwarnings("ignore")
FLAGS = ["-std=c17", "-D_GNU_SOURCE", "-I.", "-O3", "-march=native", "-fPIC", "-shared"]


def library():
    path = tempfile.mkdtemp() + "/metrics.so"
    subprocess.check_call(["cc", *FLAGS, "-o", path, "glue/metrics.c", "base/error.c", "-lm"])
    lib = ctypes.CDLL(path)
    for name in ("accuracy", "f1", "matthews", "pearson"):
        getattr(lib, "metrics_" + name).restype = ctypes.c_double
    return lib


def array(x):
    return (ctypes.c_double * len(x))(*x)


def ours(lib, name, x, y, classes):
    a, b, n = array(x), array(y), ctypes.c_size_t(len(x))
    if name == "spearmanr":
        out, error = ctypes.c_double(), ctypes.create_string_buffer(2048)
        assert lib.metrics_spearman(a, b, n, ctypes.byref(out), error) == 0
        return out.value
    if name == "matthews_correlation":
        return lib.metrics_matthews(a, b, n, ctypes.c_int(classes))
    return getattr(lib, "metrics_" + name)(a, b, n)


def theirs(name, x, y, classes):
    if name in ("pearson", "spearmanr"):
        return float((pearsonr if name == "pearson" else spearmanr)(x, y)[0])
    x, y = np.array(x).astype(int), np.array(y).astype(int)
    return float({"accuracy": lambda: accuracy_score(y, x), "f1": lambda: f1_score(y, x, zero_division=0),
                  "matthews_correlation": lambda: matthews_corrcoef(y, x)}[name]())


def vectors(r):
    """(name, classes, predictions, labels): random, with ties, constants and skewed classes."""
    n = r.choice([2, 3, 4, 5, 8, 16, 33, 100, 400])
    kind = r.choice(["classes", "skewed", "one class", "floats", "ties", "scores", "near"])
    if kind in ("classes", "skewed", "one class"):
        k = r.choice([2, 2, 3, 5])
        p = r.choice([0.5, 0.02, 0.9])
        y = [r.randrange(k) if kind == "classes" else int(r.random() < p) for _ in range(n)]
        x = [r.randrange(k) if r.random() < 0.5 else v for v in y]
        if kind == "one class":
            x = [r.randrange(2)] * n
        names = ["accuracy", "matthews_correlation"] + (["f1"] if max(x + y) < 2 else [])
        return [(name, k, x, y) for name in names]
    if kind == "floats":
        x, y = [r.gauss(0, 1) for _ in range(n)], [r.uniform(0, 5) for _ in range(n)]
    elif kind == "ties":
        x, y = [r.randrange(4) for _ in range(n)], [r.randrange(3) for _ in range(n)]
    elif kind == "scores":
        y = [r.randrange(0, 51) / 10 for _ in range(n)]
        x = [v + r.gauss(0, 0.5) for v in y]
    else:
        y = [r.uniform(0, 5) for _ in range(n)]
        x = [3 * v - 1 for v in y]
    return [("pearson", 0, x, y), ("spearmanr", 0, x, y)]


def differ(a, b):
    if math.isnan(a) or math.isnan(b):
        return 0 if math.isnan(a) and math.isnan(b) else math.inf
    return abs(a - b)


def compare(lib, rounds):
    r, worst, count, nans = random.Random(7), {}, 0, 0
    for _ in range(rounds):
        for name, k, x, y in vectors(r):
            a, b = ours(lib, name, x, y, k), theirs(name, x, y, k)
            worst[name] = max(worst.get(name, 0), differ(a, b))
            count, nans = count + 1, nans + math.isnan(b)
    print(count, "comparisons,", nans, "undefined in both; largest difference:", worst)
    return max(worst.values()) <= 1e-12


def write(path):
    r, rows = random.Random(11), []
    while len(rows) < 36:
        for name, k, x, y in vectors(r):
            if len(x) <= 33 and sum(row[0] == name for row in rows) < 8:
                rows.append((name, k, theirs(name, x, y, k), x, y))
    with open(path, "w") as f:
        for name, k, value, x, y in rows:
            f.write("\t".join([name, str(k), "%.17g" % value] + [" ".join("%.17g" % v for v in z) for z in (x, y)]) + "\n")


if sys.argv[1:2] == ["--write"]:
    write(sys.argv[2])
else:
    sys.exit(not compare(library(), 6000))
