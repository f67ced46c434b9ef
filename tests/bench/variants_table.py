"""Writes README's table of variants from what `heed_bench variants` printed: the longest text, and a token more.

    ./dev bench variants | tee build/variants.txt; python3 tests/bench/variants_table.py < build/variants.txt
"""
import sys

from plot import seconds, tables

ROWS = {"full": "`full`", "sliding_window": "`sliding_window` of 512", "blockwise": "`blockwise`",
        "sparse_fixed": "`sparse_fixed`", "axial_column": "`axial`, columns", "memory_compressed": "`memory_compressed`",
        "linear": "`linear`", "performer": "`performer`", "synthesizer": "`synthesizer`, factorized", "lsh": "`lsh`, one round",
        "sinkhorn": "`sinkhorn`", "relative_memory": "`relative_memory` of 512", "compressive": "`compressive`"}
LONGEST, POSITIONS = "65536", ("1000", "65536", "1000000")


def factor(text):
    value = float(text.split()[0])
    return f"{value:.0f} x" if value >= 10 else f"{value:.1f} x"


def duration(text):
    value = 1e3 * seconds(text)
    return f"{value:.1f} ms" if value >= 1 else f"{value:.2f} ms"


def main():
    lengths, tokens = tables(sys.stdin)[:2]
    print("| | 65,536 tokens | against `full` | attention alone | above the weights | a token at 1,000 | at 65,536 | at 1,000,000 |")
    print("|---|---|---|---|---|---|---|---|")
    for variant, name in ROWS.items():
        row = next(r for r in lengths if r["variant"] == variant and r["rows"] == LONGEST)
        at = {r["position"]: duration(r["a token"]) for r in tokens if r["variant"] == variant}
        cells = [name, f"{seconds(row['model']):.1f} s", factor(row["model x full"]), factor(row["attention x full"]),
                 f"{row['peak above weights MiB']} MiB", *(at.get(position, "") for position in POSITIONS)]
        print("| " + " | ".join(cells).rstrip() + " |")


if __name__ == "__main__":
    main()
