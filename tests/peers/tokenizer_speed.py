"""Heed's tokenizers beside the `tokenizers` package, one thread each, in turns, on the same texts: the golden folders that have a
tokenizer.json.

    ./dev peers tokenizer_speed
"""
import os

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import collections
import pathlib
import re
import statistics
import subprocess
import sys
import time

from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/golden/tokenizers"
ROUNDS = 3
MEGABYTE = 1_000_000


def repeated(unit):
    return unit * -(-MEGABYTE // len(unit.encode()))


def build():
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "heed_bench"], cwd=ROOT, check=True,
                   stdout=sys.stderr)


def texts():
    """As tests/bench/tokenizers_bench.cc makes them."""
    documents = "".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "docs/operations.md", "docs/variants.md"))
    solid = documents.replace(" ", "").replace("\n", "")
    return {"documents": documents, "no space": repeated(solid), "one letter": repeated("a")}


def of_heed():
    """{(tokenizer, text): (tokens, seconds)}"""
    printed = subprocess.run(["build/release/heed_bench", "--threads=1", "tokenizers"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^\s*(\S+)\s+(documents|no space|one letter)\s+(\d+)\s+(\d+\.\d+)", printed, re.MULTILINE)
    return {(name, kind): (int(tokens), float(seconds)) for name, kind, tokens, seconds in rows}


def of_package(tokenizer, text):
    least, tokens = float("inf"), 0
    began = time.perf_counter()
    while True:
        start = time.perf_counter()
        tokens = len(tokenizer.encode(text).ids)
        end = time.perf_counter()
        least = min(least, end - start)
        if end - began > 0.2:
            return tokens, least


def main():
    build()
    wanted = texts()
    loaded = {}
    for folder in sorted(FOLDER.iterdir()):
        if (folder / "tokenizer.json").exists():
            loaded[folder.name] = Tokenizer.from_file(str(folder / "tokenizer.json"))
            loaded[folder.name].no_truncation()
    ours, theirs = collections.defaultdict(list), collections.defaultdict(list)
    tokens = {}
    for _ in range(ROUNDS):
        for key, (count, seconds) in of_heed().items():
            ours[key].append(seconds)
            tokens[key] = count
        for name, tokenizer in loaded.items():
            for kind, text in wanted.items():
                count, seconds = of_package(tokenizer, text)
                theirs[name, kind].append(seconds)
                if tokens[name, kind] != count:
                    print(f"{name}, {kind}: {tokens[name, kind]} tokens by heed, {count} by the package")
    ratios = []
    for key in sorted(theirs):
        ratio = min(theirs[key]) / min(ours[key])
        ratios.append(ratio)
        size = len(wanted[key[1]].encode())
        print(f"{key[0]:32} {key[1]:12} heed {size / min(ours[key]) / 1e6:8.2f} MB/s, package {size / min(theirs[key]) / 1e6:8.2f} MB/s: {ratio:7.2f} x")
    print(f"{len(ratios)} rows, median {statistics.median(ratios):.2f} x, least {min(ratios):.2f} x, {sum(r < 1 for r in ratios)} slower than the package")


if __name__ == "__main__":
    main()
