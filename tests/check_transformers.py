"""Model directories against the real packages, both ways. Needs torch, transformers, safetensors.

    python3 tests/check_transformers.py [--normglue build/normglue] [--golden DIR] [--expected DIR] TEXT

TEXT is plain text for a small tokenizer and one training step. Checked, each a line "ok" or "FAILED":
  ours to theirs  every row of the arrangement table is pretrained for two steps; transformers opens the
                  directory (trust_remote_code where the arrangement is unknown to it) without missing or
                  unexpected tensors, and its fill-mask pipeline gives the same tokens and scores as ours; the same
                  after checkpoint export --fold, and for a Pre-LN model after checkpoint convert; hidden states and
                  logits of transformers in float64, in evaluation mode, are written for build/tests/test_golden, which
                  holds ours in f32 against them;
                  TrainerState reads trainer_state.json; save_file writes model.safetensors again, byte for byte
  theirs to ours  RobertaForMaskedLM, RobertaPreLayerNormForMaskedLM and their sequence classifiers with random
                  weights: fill-mask and predict give what the pipelines give; RobertaModel loads
  golden          (with --golden) hidden states and logits of the reference encoders in float64
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer, pipeline

MODELLING = os.path.join(os.path.dirname(__file__), "..", "encoder", "modelling")
TEXTS = ["The <mask> went to the sea.", "It was a <mask> day, and he said so.", "<mask>"]
PAIRS = [("Old men talk.", "Nobody talks."), ("The sea is deep.", "He went home, and she did not."), ("a", "b")]
failures = 0


def check(name, passed, detail=""):
    global failures
    failures += not passed
    print(f"{'ok    ' if passed else 'FAILED'}  {name}  {detail}", flush=True)


def run(program, *words, text=None):
    done = subprocess.run([program, *words], input=text, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def archs(program):
    """Names of the arrangement table, from --help: the lines after "Arrangements"."""
    names = re.findall(r"^  ([a-z][a-z0-9_]*)  +.*$", run(program, "pretrain", "--help").split("rrangements")[-1], re.M)
    return [name for name in names if name not in ("tiny", "mini", "small", "medium", "base", "large")]


def relative(found, expected):
    return ((found - expected).abs().max() / expected.abs().max()).item()


def compare_fill_mask(name, program, directory):
    ours = [json.loads(line) for line in run(program, "fill-mask", "--model", directory,
                                             text="\n".join(TEXTS) + "\n").splitlines()]
    pipe = pipeline("fill-mask", model=directory, tokenizer=directory, trust_remote_code=True, device="cpu")
    worst, same = 0.0, True
    for mine, text in zip(ours, TEXTS):
        theirs = pipe(text, top_k=5)
        same &= len(mine) == len(theirs) == 5
        for a, b in zip(mine, theirs):
            worst = max(worst, abs(a["score"] / b["score"] - 1))
            same &= a["token"] == b["token"] and a["sequence"] == b["sequence"]
    check(name, same and worst < 1e-4, f"worst relative difference of scores {worst:.1e}")


def compare_predict(name, program, directory):
    lines = "".join(f"{a}\t{b}\n" for a, b in PAIRS)
    ours = [json.loads(line) for line in run(program, "predict", "--model", directory, text=lines).splitlines()]
    pipe = pipeline("text-classification", model=directory, tokenizer=directory, trust_remote_code=True, device="cpu")
    worst, same = 0.0, True
    for mine, (a, b) in zip(ours, PAIRS):
        theirs = pipe({"text": a, "text_pair": b}, top_k=None)
        same &= [x["label"] for x in mine] == [x["label"] for x in theirs]
        worst = max(worst, *(abs(x["score"] - y["score"]) for x, y in zip(mine, theirs)))
    check(name, same and worst < 1e-5, f"worst difference of scores {worst:.1e}")


def check_files(name, directory):
    model, info = AutoModelForMaskedLM.from_pretrained(directory, trust_remote_code=True, output_loading_info=True)
    strange = {key: sorted(value) for key, value in info.items() if value}
    check(f"{name}: no missing or unexpected tensor", not strange, str(strange or type(model).__name__))
    again = os.path.join(directory, "again.safetensors")
    save_file(load_file(os.path.join(directory, "model.safetensors")), again, metadata={"format": "pt"})
    with open(again, "rb") as a, open(os.path.join(directory, "model.safetensors"), "rb") as b:
        check(f"{name}: the same bytes from save_file", a.read() == b.read())
    state = transformers.TrainerState.load_from_json(os.path.join(directory, "trainer_state.json"))
    check(f"{name}: TrainerState reads trainer_state.json", state.global_step == 2, f"{len(state.log_history)} entries")


def pretrain(program, text, tokenizer, work, name, *more):
    output = os.path.join(work, name)
    run(program, "pretrain", "--hidden-size", "32", "--num-hidden-layers", "2", "--num-attention-heads", "4",
        "--intermediate-size", "64", "--tokenizer", tokenizer, "--train", text, "--cache-dir",
        os.path.join(work, "shards"), "--max-steps", "2", "--warmup-steps", "0", "--learning-rate", "0.05",
        "--max-seq-length", "64", "--initializer-range", "0.2", "--output", output, *more)
    return output


def rewritten(name, program, directory, *words):
    """Another model by `checkpoint ...`, with the same answers in both programs."""
    output = directory + "-" + name.split()[-1]
    run(program, "checkpoint", *words, "--output", output, directory)
    compare_fill_mask(f"{name}: fill-mask", program, output)


def write_expected(directory, output):
    """A folder for test_golden: the model with a classifier, sentences with padding, what transformers says in float64."""
    more = dict(trust_remote_code=True, dtype=torch.float64, num_labels=3)
    mlm = AutoModelForMaskedLM.from_pretrained(directory, **more).eval()
    classifier = AutoModelForSequenceClassification.from_pretrained(directory, **more).eval()
    classifier.base_model.load_state_dict(mlm.base_model.state_dict(), strict=False)
    batch = AutoTokenizer.from_pretrained(directory, trust_remote_code=True)(
        [a + " " + b for a, b in PAIRS], padding=True, return_tensors="pt")
    inputs = dict(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    chosen = inputs["attention_mask"].bool() & (torch.arange(inputs["input_ids"].shape[1]) % 3 == 1)
    with torch.no_grad():
        expected = inputs | {
            "mlm_labels": torch.where(chosen, inputs["input_ids"], -100),
            "sequence_output": mlm.base_model(**inputs)[0] * inputs["attention_mask"].unsqueeze(2),
            "mlm_logits": mlm(**inputs).logits[chosen],
            "cls_logits": classifier(**inputs).logits}
    os.makedirs(output)
    classifier.config.save_pretrained(output)
    heads = {name: w.float() for name, w in classifier.state_dict().items() if name.startswith("classifier.")}
    save_file(load_file(os.path.join(directory, "model.safetensors")) | heads,
              os.path.join(output, "model.safetensors"), metadata={"format": "pt"})
    save_file({name: x.contiguous() for name, x in expected.items()}, os.path.join(output, "expected.safetensors"))


def compare_hidden(test, folder):
    """test_golden's line of each folder; f32 only, whose bound is 1e-5."""
    done = subprocess.run([test, folder], capture_output=True, text=True)
    lines = re.findall(r"^(\S+) +f32 +outputs (\S+) .* (ok|OUT OF TOLERANCE)$", done.stdout, re.M)
    for name, worst, verdict in lines:
        check(f"{name}: hidden states and logits", verdict == "ok" and float(worst) <= 1e-5,
              f"worst relative difference {worst}")
    names = sorted(os.listdir(folder))
    check("test_golden compared every row", [name for name, *_ in lines] == names, f"{len(lines)} of {len(names)}")


def ours_to_theirs(program, text, tokenizer, work, expected, chosen):
    for arch in chosen or archs(program):
        dropout = ["--hidden-dropout-prob", "0"] if arch == "precrms" else []
        output = pretrain(program, text, tokenizer, work, arch, "--arch", arch, *dropout)
        check_files(arch, output)
        compare_fill_mask(f"{arch}: fill-mask", program, output)
        rewritten(f"{arch} folded", program, output, "export", "--fold")
        write_expected(output, os.path.join(expected, arch))
    output = pretrain(program, text, tokenizer, work, "bare", "--arch", "preln", "--embed-norm", "0")
    compare_fill_mask("preln without embedding norm: fill-mask", program, output)
    for target in ("prerms", "precrms"):
        rewritten(f"preln converted to {target}", program, output, "convert", "--to", target)


def theirs_to_ours(program, text, tokenizer, work):
    size = dict(vocab_size=len(AutoTokenizer.from_pretrained(tokenizer)), hidden_size=32, num_hidden_layers=2,
                num_attention_heads=4, intermediate_size=64, max_position_embeddings=66, type_vocab_size=1,
                pad_token_id=1, bos_token_id=0, eos_token_id=2, initializer_range=0.5, layer_norm_eps=1e-5)
    for family, config in (("Roberta", transformers.RobertaConfig),
                           ("RobertaPreLayerNorm", transformers.RobertaPreLayerNormConfig)):
        for head in ("ForMaskedLM", "ForSequenceClassification", "Model"):
            directory = os.path.join(work, family + head)
            labels = {"id2label": {0: "no", 1: "yes", 2: "maybe"}} if head == "ForSequenceClassification" else {}
            model = getattr(transformers, family + head)(config(**size, **labels))
            for name, weight in model.named_parameters():
                if name.endswith("bias") or "LayerNorm" in name or "layer_norm" in name:
                    torch.nn.init.normal_(weight, mean=float(name.endswith("weight")), std=0.3)
            model.save_pretrained(directory)
            AutoTokenizer.from_pretrained(tokenizer).save_pretrained(directory)
            if head == "ForMaskedLM":
                compare_fill_mask(f"{family}{head}: fill-mask", program, directory)
            elif head == "ForSequenceClassification":
                compare_predict(f"{family}{head}: predict", program, directory)
            else:
                done = subprocess.run([program, "pretrain", "--model", directory, "--train", text, "--max-steps", "1",
                                       "--max-seq-length", "64", "--output", directory + "-more"],
                                      text=True, capture_output=True)
                check(f"{family}{head}: loads, the head starts new, the pooler is not used",
                      done.returncode == 0 and "lm_head starts new" in done.stderr
                      and "not used: pooler" in done.stderr, "" if done.returncode == 0 else done.stderr)


def golden(folder, work):
    for name in sorted(os.listdir(folder)):
        expected = os.path.join(folder, name, "expected.safetensors")
        if name.startswith("trajectory") or not os.path.exists(expected):
            continue
        directory = os.path.join(work, "golden-" + name)
        shutil.copytree(os.path.join(folder, name), directory)
        path = os.path.join(directory, "config.json")
        os.chmod(path, 0o644)
        os.chmod(directory, 0o755)
        with open(path) as file:
            config = json.load(file)
        if config["model_type"] == "normglue":
            for source in os.listdir(MODELLING):
                if source.endswith(".py"):
                    shutil.copy(os.path.join(MODELLING, source), directory)
            config["auto_map"] = {"AutoConfig": "configuration_normglue.NormGlueConfig"} | {
                auto: f"modeling_normglue.NormGlue{auto.removeprefix('AutoModel') or 'Model'}"
                for auto in ("AutoModel", "AutoModelForMaskedLM", "AutoModelForSequenceClassification")}
            with open(path, "w") as file:
                json.dump(config, file)
        e = load_file(expected)
        inputs = dict(input_ids=e["input_ids"], attention_mask=e["attention_mask"])
        double = dict(trust_remote_code=True, dtype=torch.float64)
        mlm = AutoModelForMaskedLM.from_pretrained(directory, **double).eval()
        classifier = AutoModelForSequenceClassification.from_pretrained(directory, **double).eval()
        real = e["attention_mask"].bool()
        with torch.no_grad():
            worst = max(relative(mlm.base_model(**inputs)[0][real], e["sequence_output"][real]),
                        relative(mlm(**inputs).logits[e["mlm_labels"] != -100], e["mlm_logits"]),
                        relative(classifier(**inputs).logits, e["cls_logits"]))
        check(f"golden {name}", worst < 1e-10, f"worst relative difference {worst:.1e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--normglue", default="build/normglue")
    parser.add_argument("--golden")
    parser.add_argument("--test-golden", default="build/tests/test_golden")
    parser.add_argument("--expected", help="keep the folders for test_golden here")
    parser.add_argument("--arch", nargs="*", help="only these rows of the table")
    parser.add_argument("--seed", type=int, default=0, help="of the weights that are drawn here")
    parser.add_argument("text")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as work:
        tokenizer = os.path.join(work, "tokenizer")
        run(options.normglue, "tokenizer", "train", "--vocab-size", "300", "--output", tokenizer, options.text)
        expected = options.expected or os.path.join(work, "expected")
        ours_to_theirs(options.normglue, options.text, tokenizer, work, expected, options.arch)
        compare_hidden(options.test_golden, expected)
        if not options.arch:
            theirs_to_ours(options.normglue, options.text, tokenizer, work)
        if options.golden:
            golden(options.golden, work)
    print(f"{failures} failed")
    sys.exit(failures > 0)


main()
