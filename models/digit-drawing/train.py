"""Trains the density of handwritten digits: the pixels so far in, the next pixel's level out, so it draws digits too.

An Image Transformer, local in one dimension: pixels in raster order, each seen with its own row up to itself and the rows
before it. A pixel has one of 16 levels; in front of the first one stands which digit it is, or that it may be any.
The last 4,000 of the 20,000 images are held out.
Stop it at any moment and start it again: it goes on from its last checkpoint.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import pathlib
import struct
import sys
import zlib

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from layers import Network, fresh_layer, fresh_norm
from mnist import SIDE, read_digits, split
from recipe import dropper
from training import Plan, export, train

LEVELS = 16  # of a pixel: its value divided by 16
ANY = LEVELS  # the id before a picture of any digit; of the digit k it is ANY + 1 + k
NAMED = 0.5  # of the training pictures have their digit in front
PIXELS = SIDE * SIDE
ROWS_BEFORE = 4  # that a layer sees
WIDTH, HEADS, LAYERS, DROPOUT = 64, 4, 6, 0.05
MEASURED = 1000  # of the held-out pictures, the first ones: each is 784 steps
NEVER = -100.0  # the bias of the scores of what is no level

CONFIG = {
    "model_type": "heed",
    "architecture": "decoder",
    "vocab_size": LEVELS + 11,
    "bos_token_id": ANY,
    "height": SIDE,
    "width": SIDE,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": 3 * WIDTH,
    "hidden_act": "swiglu",
    "norm": "pre",
    "norm_type": "layer",
    "layer_norm_eps": 1e-5,
    "embedding_scale": 8,
    "positions": "learned",
    "max_position_embeddings": PIXELS + 1,
    "attention_bias": False,
    "layers": [{"attention": {"type": "image_local_1d", "query_block": SIDE, "memory_block": ROWS_BEFORE * SIDE}, "ffn": {"type": "dense"}}] * LAYERS,
    "head": "lm",
    "tie_word_embeddings": False,
}


def levels(images):
    return images.flatten(1).long() * LEVELS // 256


def after(front, pixels):
    """What the network reads to score the pixels: at each place the one before it."""
    return torch.cat([front[:, None], pixels[:, :-1]], 1)


# ----------------------------------------------------------------------------------------------------------- network

def fresh_weights():
    """The vectors of positions are, while it learns, sums of one for the row and one for the column."""
    w = {"embed.tokens.weight": torch.randn(CONFIG["vocab_size"], WIDTH) * 0.04}
    w |= {f"embed.{axis}": torch.randn(SIDE, WIDTH) * 0.3 for axis in ("rows", "columns")}
    for i in range(LAYERS):
        w |= fresh_layer(f"layers.{i}", WIDTH, CONFIG["intermediate_size"], CONFIG["hidden_act"])
    return w | fresh_norm("norm", WIDTH) | {"lm_head.weight": torch.randn(LEVELS, WIDTH) * WIDTH**-0.5, "lm_head.bias": torch.zeros(LEVELS)}


def positions(w):
    return (w["embed.rows"][:, None] + w["embed.columns"]).flatten(0, 1)


def native(w):
    """The weights as Heed has them: a position's own vector, also one for the place after the picture, and scores of all ids."""
    w = {name: t for name, t in w.items() if name not in ("embed.rows", "embed.columns")} | {
        "embed.positions.weight": F.pad(positions(w), (0, 0, 0, 1)),
        "lm_head.weight": F.pad(w["lm_head.weight"], (0, 0, 0, CONFIG["vocab_size"] - LEVELS)),
        "lm_head.bias": F.pad(w["lm_head.bias"], (0, CONFIG["vocab_size"] - LEVELS), value=NEVER)}
    return {name: t.bfloat16().float() for name, t in w.items()}


def unseen():
    """[rows, 1, SIDE, keys] to be added to scores: -inf for keys after the query and above the picture."""
    keys = torch.arange((ROWS_BEFORE + 1) * SIDE) - ROWS_BEFORE * SIDE
    after_it = keys[None] > torch.arange(SIDE)[:, None]
    above = keys[None] + torch.arange(SIDE)[:, None] * SIDE < 0
    return torch.zeros(SIDE, 1, SIDE, len(keys)).masked_fill((after_it[None] | above[:, None])[:, None], -math.inf)


UNSEEN = unseen()


def attend(qkv):
    """[batch, pixels, 3, heads, head width] -> [batch, pixels, heads, head width], a picture at a time: it stays in the cache."""
    mask = UNSEEN.to(qkv.dtype)
    return torch.stack([attend_picture(*one.unflatten(0, (SIDE, SIDE)).unbind(2), mask) for one in qkv])


def attend_picture(q, k, v, mask):
    q = q.transpose(1, 2) * q.shape[-1]**-0.5
    k, v = (F.pad(t, (0, 0, 0, 0, 0, 0, ROWS_BEFORE, 0)).unfold(0, ROWS_BEFORE + 1, 1).permute(0, 2, 4, 1, 3).flatten(2, 3) for t in (k, v))
    return ((q @ k.mT + mask).softmax(-1) @ v).transpose(1, 2).flatten(0, 1)


def attend_seen(qkv, seen, at, first):
    """One pixel, [batch, 1, 3, heads, head width], which is kept as the one at `at`, to those from `first` on."""
    seen[:, at] = qkv[:, 0, 1:]
    k, v = seen[:, first:at + 1].unbind(2)
    weights = torch.einsum("bhd,bkhd->bhk", qkv[:, 0, 0] * qkv.shape[-1]**-0.5, k).softmax(-1)
    return torch.einsum("bhk,bkhd->bhd", weights, v)[:, None]


class Density(Network):
    def scores(self, ids):
        """ids [batch, pixels], each the one before the pixel that is scored -> [batch, pixels, LEVELS or all ids]"""
        where = self.w.get("embed.positions.weight")
        x = self.w["embed.tokens.weight"][ids] * CONFIG["embedding_scale"] + (positions(self.w) if where is None else where[:PIXELS])
        x = self.drop(x)
        for i in range(LAYERS):
            x = self.layer(x, f"layers.{i}", HEADS, attend)
        return self.linear(self.norm(x, "norm"), "lm_head").float()

    def draw(self, front):
        """Pictures with these ids in front, each pixel drawn as likely as the network finds it -> [batch, pixels]"""
        drawn, seen = [front], torch.zeros(LAYERS, len(front), PIXELS, 2, HEADS, WIDTH // HEADS)  # keys and values
        for at in range(PIXELS):
            first = max(0, at // SIDE - ROWS_BEFORE) * SIDE
            x = self.w["embed.tokens.weight"][drawn[-1]] * CONFIG["embedding_scale"] + self.w["embed.positions.weight"][at]
            x = x[:, None]
            for i in range(LAYERS):
                x = self.layer(x, f"layers.{i}", HEADS, lambda qkv: attend_seen(qkv, seen[i], at, first))
            drawn.append(self.linear(self.norm(x[:, 0], "norm"), "lm_head").softmax(-1).multinomial(1)[:, 0])
        return torch.stack(drawn[1:], 1)

    def nats(self, front, pixels):
        """Mean over the pixels."""
        return F.cross_entropy(self.scores(after(front, pixels)).flatten(0, 1), pixels.flatten())


# -------------------------------------------------------------------------------------------------- measure, baselines

@torch.no_grad()
def bits(network, front, pixels, size=16):
    """Of a pixel, mean and standard error over pictures."""
    each = [F.cross_entropy(network.scores(after(f, p)).mT, p, reduction="none").mean(1) for f, p in zip(front.split(size), pixels.split(size))]
    return spread(torch.cat(each))


def spread(nats):
    each = nats / math.log(2)
    return f"{each.mean():.4f} ± {each.std() / len(each)**0.5:.4f}"


def counted_bits(train, pixels, contexts):
    """A pixel's level counted in each context (add-one); contexts(pixels) gives the number of each pixel's."""
    at, asked = contexts(train), contexts(pixels)
    table = torch.ones(int(max(at.max(), asked.max())) + 1, LEVELS)
    table.index_put_((at.flatten(), train.flatten()), torch.ones(train.numel()), accumulate=True)
    log = (table / table.sum(1, keepdim=True)).log()
    return spread(-log[asked, pixels].mean(1))


def place(pixels):
    return torch.arange(PIXELS).expand(len(pixels), -1)


def neighbours(pixels):
    """The levels to the left, above and above to the right, together."""
    picture = F.pad(pixels.view(-1, SIDE, SIDE), (1, 1, 1, 0))
    left, above, right = picture[:, 1:, :SIDE], picture[:, :-1, 1:SIDE + 1], picture[:, :-1, 2:]
    return ((left * LEVELS + above) * LEVELS + right).flatten(1)


# ---------------------------------------------------------------------------------------------------------- pictures

def save_png(path, pictures, columns, gap=2, times=2):
    """pictures [count, pixels] of levels, side by side, each pixel `times` as wide and high."""
    grid = F.pad(pictures.view(-1, columns, SIDE, SIDE), (0, gap, 0, gap), value=4).transpose(1, 2).flatten(2).flatten(0, 1)
    grey = (grid * 255 // (LEVELS - 1)).to(torch.uint8).repeat_interleave(times, 0).repeat_interleave(times, 1)

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    head = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    lines = b"".join(b"\0" + bytes(line) for line in grey.tolist())
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b""))


def draw_samples(path, network, of_each=4):
    """A column of each digit."""
    torch.manual_seed(1)
    with torch.no_grad():
        save_png(path, network.draw(ANY + 1 + torch.arange(10).repeat(of_each)), 10)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "../shared/data")
    args.add_argument("--out", type=pathlib.Path, default=HERE)
    args.add_argument("--checkpoint", type=pathlib.Path, default=HERE.parents[1] / "build/train/digit-drawing.pt")
    args.add_argument("--passes", type=float, default=0.48, help="over the pictures")
    args = args.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)

    images, labels = read_digits(args.data)
    (pixels, held_out), (labels, held_out_labels) = map(split, (levels(images), labels))
    w = fresh_weights()
    network = Density(w, CONFIG["hidden_act"], torch.bfloat16, dropper(DROPOUT))

    def loss(rows):
        named = torch.rand(len(rows)) < NAMED
        return network.nats(ANY + named * (1 + labels[rows]), pixels[rows])

    def export_now():
        export(args.out, native(w), CONFIG)
        few = Density(w, CONFIG["hidden_act"], torch.bfloat16)
        return f"held out, the first 100: {bits(few, torch.full((100,), ANY), held_out[:100])} bits"
    train(w, loss, Plan(len(pixels), 8, args.passes, args.checkpoint, matrix_rate=0.02), export_now)

    exact = Density(native(w), CONFIG["hidden_act"])
    draw_samples(args.out / "samples.png", exact)
    asked = held_out[:MEASURED]
    print(f"held out: this model {bits(exact, torch.full((MEASURED,), ANY), asked)} bits a pixel, "
          f"told the digit {bits(exact, ANY + 1 + held_out_labels[:MEASURED], asked)}")
    print(f"held out: levels counted at each place {counted_bits(pixels, asked, place)} bits a pixel")
    print(f"held out: levels counted by the three neighbours {counted_bits(pixels, asked, neighbours)} bits a pixel")


if __name__ == "__main__":
    main()
