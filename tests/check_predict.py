"""check_predict - normglue predict against the text-classification pipeline of transformers.

    python tests/check_predict.py build/normglue BPE_DIR      compare on random models
    python tests/check_predict.py build/normglue DIR...       compare on saved classifiers
    python tests/check_predict.py --write tests/data/finetune write the golden directories

BPE_DIR holds roberta-vocab.json and merges.txt. Needs torch, transformers and tokenizers.
Models have random weights, large enough that probabilities differ between labels.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    RobertaConfig,
    RobertaForSequenceClassification,
    RobertaPreLayerNormConfig,
    RobertaPreLayerNormForSequenceClassification,
    RobertaTokenizerFast,
    pipeline,
)

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "A man is playing a guitar.\tSomeone plays an instrument.",
    "",
    "caf\u00e9 \u2014 na\u00efve \U0001f600 \u65e5\u672c\u8a9e",
    "one two three four five six seven eight nine ten",
    "  leading and  double spaces \tand a second text ",
    "Yes.\tNo.",
    'quotes " and \\ stay as they are',
]
MODELS = [  # folder, config class, model class, extra config
    ("postln-3", RobertaConfig, RobertaForSequenceClassification,
     {"id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}}),
    ("postln-2", RobertaConfig, RobertaForSequenceClassification, {"num_labels": 2}),
    ("preln-2", RobertaPreLayerNormConfig, RobertaPreLayerNormForSequenceClassification,
     {"id2label": {0: "not \"so\"", 1: "so"}}),
    ("score", RobertaConfig, RobertaForSequenceClassification,
     {"num_labels": 1, "problem_type": "regression"}),
]


def make_model(folder, row, tokenizer, **sizes):
    """A directory as transformers saves it."""
    _, config_class, model_class, extra = row
    config = config_class(
        vocab_size=len(tokenizer), type_vocab_size=1, layer_norm_eps=1e-5,
        pad_token_id=1, bos_token_id=0, eos_token_id=2, initializer_range=0.2,
        **sizes, **extra)
    model = model_class(config).eval()
    with torch.no_grad():  # biases and norms are not left at their starting values
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def pipeline_answers(folder, texts):
    classify = pipeline("text-classification", model=str(folder), top_k=None, device="cpu")
    answers = []
    for text in texts:
        a, tab, b = text.partition("\t")
        answer = classify({"text": a, "text_pair": b} if tab else a)
        answers.append(answer[0] if isinstance(answer[0], list) else answer)
    return answers


def compare(normglue, folder):
    """The largest difference of a score; labels must be the same in the same order."""
    wanted = pipeline_answers(folder, TEXTS)
    found = subprocess.run([normglue, "predict", "--model", folder], check=True,
                           input="".join(text + "\n" for text in TEXTS),
                           capture_output=True, text=True, encoding="utf-8").stdout
    found = [json.loads(line) for line in found.splitlines()]
    assert len(found) == len(wanted), (len(found), len(wanted))
    worst = 0.0
    for f, w in zip(found, wanted):
        assert [x["label"] for x in f] == [x["label"] for x in w], (f, w)
        worst = max([worst] + [abs(x["score"] - y["score"]) for x, y in zip(f, w)])
    return worst


def check(normglue, bpe):
    tokenizer = RobertaTokenizerFast(vocab=str(bpe / "roberta-vocab.json"),
                                     merges=str(bpe / "merges.txt"))
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for row in MODELS:
            folder = Path(scratch) / row[0]
            make_model(folder, row, tokenizer, hidden_size=64, num_hidden_layers=3,
                       num_attention_heads=4, intermediate_size=128,
                       max_position_embeddings=130)
            worst = compare(normglue, folder)
            failed |= worst > 1e-5
            print(f"{row[0]}: {len(TEXTS)} texts, largest difference {worst:.1e}")
    return 1 if failed else 0


def check_saved(normglue, folders):
    """transformers opens what normglue finetune has written."""
    worst = [compare(normglue, folder) for folder in folders]
    for folder, difference in zip(folders, worst):
        print(f"{folder}: {len(TEXTS)} texts, largest difference {difference:.1e}")
    return 1 if max(worst) > 1e-5 else 0


def write(output):
    """Small directories with the pipeline's answers, for tests/test_predict.c."""
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(TEXTS * 3, vocab_size=290, special_tokens=SPECIALS)
    with tempfile.TemporaryDirectory() as scratch:
        trained.save_model(scratch)
        tokenizer = RobertaTokenizerFast(vocab=f"{scratch}/vocab.json",
                                         merges=f"{scratch}/merges.txt")
    for row in MODELS:
        folder = output / row[0]
        make_model(folder, row, tokenizer, hidden_size=16, num_hidden_layers=2,
                   num_attention_heads=2, intermediate_size=32,
                   max_position_embeddings=66)
        answers = pipeline_answers(folder, TEXTS)
        (folder / "expected.jsonl").write_text(
            "".join(json.dumps(a, ensure_ascii=False) + "\n" for a in answers),
            encoding="utf-8")
    (output / "texts.tsv").write_text("".join(t + "\n" for t in TEXTS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    torch.manual_seed(1)
    if sys.argv[1] == "--write":
        sys.exit(write(Path(sys.argv[2])))
    if (Path(sys.argv[2]) / "config.json").exists():
        sys.exit(check_saved(sys.argv[1], sys.argv[2:]))
    sys.exit(check(sys.argv[1], Path(sys.argv[2])))
