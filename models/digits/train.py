"""Trains the digit classifier: a picture of a handwritten digit in, 0 to 9 out. A small Swin Transformer.

The last 4,000 of the 20,000 images are held out. The others are turned, stretched, slanted and moved a little, each time anew.
Stop it at any moment and start it again: it goes on from its last checkpoint.
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
from layers import Network, attend_all, fresh_layer, fresh_linear, fresh_norm
from mnist import SIDE, read_digits, split
from recipe import dropper
from training import Plan, export, in_batches, logistic_regression, share, train

MEAN, DEVIATION = 0.1307, 0.3081  # of a pixel, 0 to 1
TURN, STRETCH, SLANT, MOVE = 0.2, 0.12, 0.2, 2.0  # at most: radians, parts, parts, pixels
PATCH, WINDOW, SHIFT, WIDTH, HEADS, DROPOUT = 2, 7, 3, 32, (2, 4), 0.1


def window_layer(shift):
    return {"attention": {"type": "window_2d", "window": WINDOW, "shift": shift}, "ffn": {"type": "dense"}}


# 14 x 14 patches in four windows, then 7 x 7 in one.
STAGES = [{"num_attention_heads": HEADS[0], "intermediate_size": 4 * WIDTH, "layers": [window_layer(0), window_layer(SHIFT)]},
          {"num_attention_heads": HEADS[1], "intermediate_size": 8 * WIDTH, "layers": [window_layer(0)] * 4}]
CONFIG = {
    "model_type": "heed",
    "architecture": "encoder",
    "input": {"kind": "patches", "image_size": SIDE, "patch_size": PATCH, "channels": 1, "patch_norm": True},
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS[0],
    "intermediate_size": 4 * WIDTH,
    "hidden_act": "gelu",
    "norm": "pre",
    "norm_type": "layer",
    "layer_norm_eps": 1e-5,
    "positions": "none",
    "stages": STAGES,
    "head": "classification",
    "pooling": "mean",
    "num_labels": 10,
    "id2label": {str(digit): str(digit) for digit in range(10)},
}
PREPROCESSOR = {"do_resize": True, "size": {"height": SIDE, "width": SIDE}, "do_rescale": True, "rescale_factor": 1 / 255,
                "do_normalize": True, "image_mean": [MEAN], "image_std": [DEVIATION]}


def fresh_weights():
    w = fresh_linear("embed.patches", WIDTH, PATCH * PATCH) | fresh_norm("embed.norm", WIDTH)
    for s, stage in enumerate(STAGES):
        d = WIDTH << s
        if s:
            w |= fresh_norm(f"stages.{s}.merge.norm", 2 * d)
            w[f"stages.{s}.merge.reduction.weight"] = torch.randn(d, 2 * d) * (2 * d)**-0.5
        for i in range(len(stage["layers"])):
            p = f"stages.{s}.layers.{i}"
            w |= fresh_layer(p, d, stage["intermediate_size"], CONFIG["hidden_act"])
            w[f"{p}.attention.relative_bias"] = torch.zeros((2 * WINDOW - 1)**2, stage["num_attention_heads"])
    return w | fresh_norm("norm", d) | fresh_linear("classifier", 10, d)


class Windows:
    """Of a square grid of tokens, shifted: which token stands where in which window, and which sees which."""

    def __init__(self, side, shift):
        y, x = torch.meshgrid(*[(torch.arange(side) - shift) % side] * 2, indexing="ij")  # of a token, after the shift
        place = (y // WINDOW * (side // WINDOW) + x // WINDOW) * WINDOW**2 + y % WINDOW * WINDOW + x % WINDOW
        self.order = place.flatten().argsort()
        self.back = place.flatten()
        passed = ((y >= side - shift) * 2 + (x >= side - shift)).flatten()[self.order].view(-1, WINDOW**2)
        self.unseen = torch.zeros(len(passed), 1, WINDOW**2, WINDOW**2).masked_fill((passed[:, :, None] != passed[:, None])[:, None], -math.inf)
        y, x = torch.arange(WINDOW**2) // WINDOW, torch.arange(WINDOW**2) % WINDOW
        self.distance = (y[:, None] - y + WINDOW - 1) * (2 * WINDOW - 1) + x[:, None] - x + WINDOW - 1

    def attend(self, qkv, relative_bias):
        bias = (relative_bias[self.distance].permute(2, 0, 1) + self.unseen).to(qkv.dtype)
        return attend_all(qkv[:, self.order].unflatten(1, (-1, WINDOW**2)), bias).flatten(1, 2)[:, self.back]


WINDOWS = {(side, shift): Windows(side, shift) for side, shift in ((14, 0), (14, SHIFT), (7, 0))}


class Classifier(Network):
    def scores(self, images):
        """images [batch, 28, 28], normalised -> [batch, 10]"""
        side = SIDE // PATCH
        patches = images.view(-1, side, PATCH, side, PATCH).transpose(2, 3).reshape(len(images), side * side, PATCH * PATCH)
        x = self.drop(self.norm(self.linear(patches, "embed.patches"), "embed.norm"))
        for s, stage in enumerate(STAGES):
            if s:
                x, side = self.merge(x, side, f"stages.{s}.merge"), side // 2
            for i, layer in enumerate(stage["layers"]):
                p = f"stages.{s}.layers.{i}"
                windows = WINDOWS[side, layer["attention"]["shift"]]
                x = self.layer(x, p, HEADS[s], lambda qkv: windows.attend(qkv, self.w[f"{p}.attention.relative_bias"]))
        return self.linear(self.norm(x, "norm").mean(1), "classifier").float()

    def merge(self, x, side, p):
        x = x.view(len(x), side // 2, 2, side // 2, 2, -1).permute(0, 1, 3, 4, 2, 5)  # (row, column) (0, 0), (1, 0), (0, 1), (1, 1)
        return self.linear(self.norm(x.reshape(len(x), (side // 2)**2, -1), f"{p}.norm"), f"{p}.reduction").float()


def normalised(images):
    return (images.float() / 255 - MEAN) / DEVIATION


def varied(images):
    """images [batch, 28, 28], each turned, stretched, slanted and moved by chance."""
    def chance(most):
        return (torch.rand(len(images)) * 2 - 1) * most
    turn, high, wide, slant = chance(TURN), 1 + chance(STRETCH), 1 + chance(STRETCH), chance(SLANT)
    rows = [torch.stack([turn.cos() * wide, (slant - turn).sin() * high, chance(MOVE * 2 / SIDE)], 1),
            torch.stack([turn.sin() * wide, turn.cos() * high, chance(MOVE * 2 / SIDE)], 1)]
    grid = F.affine_grid(torch.stack(rows, 1), (len(images), 1, SIDE, SIDE), align_corners=False)
    return F.grid_sample(images.float()[:, None], grid, align_corners=False)[:, 0]


def nearest(known, labels, asked, k=3):
    """The baseline: the label of most of the k nearest images, the nearest one's where they disagree."""
    def found(x):
        distance = (known * known).sum(1) - 2 * x @ known.T
        votes = F.one_hot(labels[distance.topk(k, largest=False).indices], 10) * torch.linspace(1.01, 1, k)[:, None]
        return votes.sum(1).argmax(1)
    return torch.cat([found(x) for x in asked.split(250)])


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "../shared/data")
    args.add_argument("--out", type=pathlib.Path, default=HERE)
    args.add_argument("--checkpoint", type=pathlib.Path, default=HERE.parents[1] / "build/train/digits.pt")
    args.add_argument("--passes", type=float, default=10, help="over the images")
    args = args.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)

    (images, held_out), (labels, held_out_labels) = map(split, read_digits(args.data))
    w = fresh_weights()
    network = Classifier(w, dtype=torch.bfloat16, drop=dropper(DROPOUT))
    plan = Plan(len(images), 64, args.passes, args.checkpoint)
    exact = train(w, lambda rows: F.cross_entropy(network.scores(normalised(varied(images[rows]))), labels[rows]), plan)
    export(args.out, exact, CONFIG, preprocessor_config=PREPROCESSOR)

    scores = in_batches(lambda rows: Classifier(exact).scores(normalised(held_out[rows])), len(held_out))
    print(f"held out: this model {share(scores.argmax(1) == held_out_labels)}, {F.cross_entropy(scores, held_out_labels):.4f} nats")
    flat, asked = (x.flatten(1).float() / 255 for x in (images, held_out))
    print(f"held out: 3 nearest images {share(nearest(flat, labels, asked) == held_out_labels)}")
    print(f"held out: logistic regression {share(logistic_regression(flat, labels, 10)(asked).argmax(1) == held_out_labels)}")


if __name__ == "__main__":
    main()
