"""Trains the classifier of point sets: where the ink of a handwritten digit is, in any order, in; 0 to 9 out. A Set Transformer.

The last 4,000 of the 20,000 digits are held out. Of the others a part of the points is taken, turned, stretched, slanted and moved
a little, each time anew. Stop it at any moment and start it again: it goes on from its last checkpoint.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import pathlib
import sys

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from layers import Network, fresh_linear, fresh_norm
from mnist import SIDE, read_digits, split
from training import Plan, export, in_batches, logistic_regression, share, train

INK = 128  # a pixel at least so dark is a point
TURN, STRETCH, SLANT, MOVE, TREMBLE = 0.2, 0.12, 0.2, 0.12, 0.02  # at most; the last one: deviation of a point
POINTS = (48, 160)  # of a training set, at most so many: drawn anew for each batch
WIDTH, HEADS, INDUCING = 64, 4, 16

CONFIG = {
    "model_type": "heed",
    "architecture": "set-encoder",
    "input_size": 2,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "layer_norm": True,
    "layer_norm_eps": 1e-5,
    "blocks": [{"type": "isab", "num_inducing": INDUCING}] * 3 + [{"type": "pma", "num_seeds": 1}],
    "head": "classification",
    "num_labels": 10,
    "id2label": {str(digit): str(digit) for digit in range(10)},
}


# ------------------------------------------------------------------------------------------------------------ points

def points_of(image):
    """Pixels with ink as (x, y), both from -1 to 1 over the image, x to the right and y down."""
    rows, columns = (image >= INK).nonzero().T
    return (torch.stack([columns, rows], 1) + 0.5) / SIDE * 2 - 1


def padded(sets):
    """-> [count, most, 2], which of them there are [count, most]"""
    size = torch.tensor([len(s) for s in sets])
    return torch.nn.utils.rnn.pad_sequence(sets, batch_first=True), torch.arange(int(size.max())) < size[:, None]


def some(points, present):
    """Of each set at most so many points, by chance."""
    most = int(torch.randint(POINTS[0], POINTS[1] + 1, ()))
    chosen = (torch.rand(present.shape) + present).topk(min(most, present.shape[1]), 1).indices
    return points.gather(1, chosen[..., None].expand(-1, -1, 2)), present.gather(1, chosen)


def varied(points):
    def chance(most):
        return (torch.rand(len(points), 1) * 2 - 1) * most
    turn, wide, high, slant = chance(TURN), 1 + chance(STRETCH), 1 + chance(STRETCH), chance(SLANT)
    x, y = points.unbind(-1)
    x, y = (x + slant * y) * wide, y * high
    moved = torch.stack([turn.cos() * x - turn.sin() * y + chance(MOVE), turn.sin() * x + turn.cos() * y + chance(MOVE)], -1)
    return moved + torch.randn(moved.shape) * TREMBLE


# ----------------------------------------------------------------------------------------------------------- network

def fresh_mab(p, source):
    w = {}
    for name, size in (("q", source[0]), ("k", source[1]), ("v", source[1]), ("o", WIDTH)):
        w |= fresh_linear(f"{p}.{name}", WIDTH, size)
        if size == 2:
            w[f"{p}.{name}.bias"] = torch.randn(WIDTH)  # else all features of a point are odd
    return w | fresh_norm(f"{p}.norm0", WIDTH) | fresh_norm(f"{p}.norm1", WIDTH)


def fresh_weights():
    w, size = {}, CONFIG["input_size"]
    for b, block in enumerate(CONFIG["blocks"]):
        if block["type"] == "isab":
            w[f"blocks.{b}.inducing"] = torch.randn(INDUCING, WIDTH)
            w |= fresh_mab(f"blocks.{b}.mab0", (WIDTH, size)) | fresh_mab(f"blocks.{b}.mab1", (size, WIDTH))
        else:
            w[f"blocks.{b}.seeds"] = torch.randn(1, WIDTH)
            w |= fresh_mab(f"blocks.{b}.mab", (WIDTH, size))
        size = WIDTH
    return w | fresh_linear("classifier", 10, WIDTH)


class Classifier(Network):
    def scores(self, points, present):
        """points [batch, n, 2] of which those present count -> [batch, 10]"""
        x, absent = points, torch.zeros(present.shape).masked_fill(~present, -math.inf)[:, None, None]
        for b, block in enumerate(CONFIG["blocks"]):
            p = f"blocks.{b}"
            if block["type"] == "isab":
                inner = self.mab(f"{p}.mab0", self.w[f"{p}.inducing"].expand(len(x), -1, -1), x, absent)
                x = self.mab(f"{p}.mab1", x, inner)
            else:
                x = self.mab(f"{p}.mab", self.w[f"{p}.seeds"].expand(len(x), -1, -1), x, absent)
        return self.linear(x[:, 0], "classifier")

    def mab(self, p, x, y, absent=0.0):
        """absent [batch, 1, 1, rows of y] is added to the scores."""
        q, k, v = (self.linear(of, f"{p}.{name}").unflatten(-1, (HEADS, -1)).transpose(1, 2) for name, of in (("q", x), ("k", y), ("v", y)))
        seen = ((q * WIDTH**-0.5) @ k.mT + absent).softmax(-1) @ v
        o = self.norm((q + seen).transpose(1, 2).flatten(2), f"{p}.norm0")
        return self.norm(o + F.relu(self.linear(o, f"{p}.o")), f"{p}.norm1")


# ---------------------------------------------------------------------------------------------------------- baseline

def moments(sets, degree):
    """Means over each set's points of x^i y^j, 0 < i + j <= degree."""
    powers = [(i, j) for i in range(degree + 1) for j in range(degree + 1 - i) if i + j]
    return torch.stack([torch.stack([(s[:, 0]**i * s[:, 1]**j).mean() for i, j in powers]) for s in sets])


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "../shared/data")
    args.add_argument("--out", type=pathlib.Path, default=HERE)
    args.add_argument("--checkpoint", type=pathlib.Path, default=HERE.parents[1] / "build/train/digit-points.pt")
    args.add_argument("--passes", type=float, default=4, help="over the digits")
    args = args.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)

    images, labels = read_digits(args.data)
    (sets, held_out), (labels, held_out_labels) = map(split, ([points_of(image) for image in images], labels))
    points, present = padded(sets)
    w = fresh_weights()

    def loss(rows):
        some_points, there = some(points[rows], present[rows])
        return F.cross_entropy(Classifier(w).scores(varied(some_points), there), labels[rows])
    exact = train(w, loss, Plan(len(sets), 64, args.passes, args.checkpoint))
    export(args.out, exact, CONFIG)

    every = padded(held_out)
    scores = in_batches(lambda rows: Classifier(exact).scores(*(t[rows] for t in every)), len(held_out))
    print(f"held out: this model {share(scores.argmax(1) == held_out_labels)}, {F.cross_entropy(scores, held_out_labels):.4f} nats")
    for degree in (1, 2, 4):
        regression = logistic_regression(moments(sets, degree), labels, 10)
        print(f"held out: logistic regression on means of x^i y^j up to degree {degree} "
              f"{share(regression(moments(held_out, degree)).argmax(1) == held_out_labels)}")


if __name__ == "__main__":
    main()
