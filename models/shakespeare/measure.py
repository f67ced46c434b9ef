"""Measures the Shakespeare models as Heed serves them: nats a byte of the held-out plays, near a text's beginning and far in.

    ./dev shell python3 models/shakespeare/measure.py build/release/heed [MODEL...]      default: every shakespeare*

The same bytes are scored twice, in pieces of 500: after the 500 bytes before them ("near"), and after the 10,000 ("far").
One piece in every 2,000 bytes is taken. A figure's error is that of its mean over the pieces.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess

from plays import Counts, read_plays

HERE = pathlib.Path(__file__).resolve().parent
PIECE, NEAR, FAR, STEP = 500, 500, 10000, 2000


def pieces(text, before):
    return [(text[at - before:at], text[at:at + PIECE]) for at in range(FAR, len(text) - PIECE + 1, STEP)]


class Server:
    """`heed serve` with the shipped models in f32, on a port of its choice."""

    def __init__(self, heed):
        self.heed = heed
        self.process = subprocess.Popen([heed, "serve", f"--models={HERE.parent}", "--precision=f32", "--address=127.0.0.1:0",
                                         "--metrics_address=127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.address = line.split()[-1]
                return
        raise SystemExit(f"{heed} serve ended")

    def nats(self, model, context, text):
        """Of a byte of `text`."""
        answer = subprocess.run([self.heed, "score", f"--address={self.address}", f"--model={model}", "--json", "--timeout=600s",
                                 f"--context={context.decode()}", "--", text.decode()], check=True, capture_output=True, text=True)
        return -json.loads(answer.stdout)["value"]["logprob"] / len(text)


def shown(values):
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values) / math.sqrt(len(values)):.4f}"


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("heed")
    args.add_argument("models", nargs="*")
    args.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "../shared/data")
    args = args.parse_args()
    train, held_out = read_plays(args.data)
    server = Server(args.heed)
    try:
        for model in args.models or sorted(p.name for p in HERE.parent.glob("shakespeare*")):
            near, far = ([server.nats(model, *piece) for piece in pieces(held_out, before)] for before in (NEAR, FAR))
            print(f"{model}: {len(near)} pieces, near {shown(near)}, far {shown(far)}, far - near {shown([f - n for f, n in zip(far, near)])}", flush=True)
    finally:
        server.process.terminate()
    counts = Counts(train)
    print(f"counted: {shown([counts.nats(context, piece) for context, piece in pieces(held_out, NEAR)])}")


if __name__ == "__main__":
    main()
