"""Trains a Shakespeare language model: bytes in, the next byte out.

Without --family it is `shakespeare` itself, with it a smaller one: the families differ in their attention alone, are of one
size and read the same number of bytes. The file's last plays are held out, whole. The rest is little: what is read beside it
is prose, reviews of films, which teaches the words that the plays use once or never. A fixed number of bytes is read, the
learning rate falling to zero at the end. Models whose memory is constant read in order, segment after segment,
each with what it remembers of those before; a text ends and another begins at random, so that every age is met. The
weights' moving average is what is measured and exported, in Heed's native format, when all is read.
Stop it at any moment and start it again: it goes on from its last checkpoint.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import math
import pathlib
import sys
import time
import typing

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import network
from network import Compressive, Linear, Lsh, Network, Performer, RelativeMemory, Shape, Softmax, SparseFixed, Window
from plays import Counts, read_plays, read_prose
from recipe import Average, Muon, dropper, load_checkpoint, save_checkpoint, save_safetensors

TOKENS = 4096  # of one step, whatever the length of its segments
MATRIX_RATE, VECTOR_RATE = 0.02, 3e-3
FALLS_FROM = 0.6  # of all that is read
PROSE, PROSE_AT_LAST = 0.5, 0.2  # of what is read, before the rate falls and then
AVERAGE = 0.998
AGE = 8192  # bytes that a text is read for, in the mean, before another begins
SCALE = 16


class Model(typing.NamedTuple):
    shape: Shape
    attentions: list  # of each layer
    segment: int
    epochs: float  # of the plays, were all that is read theirs
    dropout: float


def shakespeare():
    shape = Shape(layers=6, width=192, heads=3, inner=432)
    return Model(shape, [Softmax(shape, alibi=True)] * shape.layers, 512, 19, 0.2)


def family(name):
    """A small model: below each layer of the family that has no sense of order lies one that sees the last bytes, in order."""
    shape = Shape(layers=6, width=128, heads=4, inner=256)
    relative = shape._replace(inner=216)  # as large, with their own weights
    near = Window(shape, 64, rotary=True)

    def above(attention):
        return [near, attention] * (shape.layers // 2)
    attentions = {
        "softmax": lambda: [Softmax(shape, alibi=True)] * shape.layers,
        "sliding_window": lambda: above(Window(shape, 256, rotary=False)),
        "linear": lambda: above(Linear(shape)),
        "performer": lambda: above(Performer(shape, 64)),
        "relative_memory": lambda: [RelativeMemory(relative, 256)] * shape.layers,
        "compressive": lambda: [Compressive(relative, 128, 128, 128, 4)] * shape.layers,
        "sparse_fixed": lambda: above(SparseFixed(shape, 64, 8)),
        "lsh": lambda: above(Lsh(shape, 64, 2, 8)),
    }
    made = attentions[name]()
    return Model(made[-1].shape, made, 512, 6, 0.1)


FAMILIES = ("softmax", "sliding_window", "linear", "performer", "relative_memory", "compressive", "sparse_fixed", "lsh")


def config(model):
    layers = [{"attention": a.config, "ffn": {"type": "dense"}} for a in model.attentions]
    return {"model_type": "heed", "architecture": "decoder", "tokenizer": "bytes", "vocab_size": 256,
            "hidden_size": model.shape.width, "num_attention_heads": model.shape.heads,
            "intermediate_size": model.shape.inner, "hidden_act": "swiglu", "norm": "pre", "norm_type": "layer",
            "layer_norm_eps": network.EPS, "embedding_scale": SCALE, "positions": "none", "attention_bias": False,
            "layers": layers, "head": "lm", "tie_word_embeddings": True}


# ------------------------------------------------------------------------------------------------------------- the text

def numbers(text, device="cpu"):
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long().to(device)


class Reader:
    """Places in the texts that a batch reads on from. Without memory each segment is a text of its own."""

    def __init__(self, plays, prose, batch, segment, remembers):
        """plays, prose: how many bytes can begin a segment's prediction; the prose lies behind the plays and a byte more."""
        self.plays, self.prose, self.segment, self.remembers = plays, prose, segment, remembers
        self.at, self.age = torch.zeros(batch, dtype=torch.long), torch.zeros(batch, dtype=torch.long)
        self.move(torch.ones(batch, dtype=torch.bool), PROSE)

    def move(self, where, prose):
        count = int(where.sum())
        of_plays, of_prose = (torch.randint(size - self.segment, (count,)) for size in (self.plays, self.prose))
        self.at[where] = torch.where(torch.rand(count) < prose, self.plays + 1 + of_prose, of_plays)
        self.age[where] = 0

    def next(self, prose):
        """Moves on -> begin and age of each segment. prose: how much of what begins is prose."""
        ends = torch.full(self.at.shape, not self.remembers) | (torch.rand(len(self.at)) < self.segment / AGE)
        end = torch.where(self.at > self.plays, self.plays + 1 + self.prose, self.plays)
        self.move(ends | (self.at + self.segment >= end), prose)
        begin, age = self.at.clone(), self.age.clone()
        self.at += self.segment
        self.age += self.segment
        return begin, age


# --------------------------------------------------------------------------------------------------- measure and export

@torch.no_grad()
def nats(net, text, segment=512):
    """Mean loss of a byte of `text`, read from its beginning on; without memory, each after segment / 2 bytes at least."""
    past, total = net.start(1), 0.0
    if all(map(len, past)):
        for at in range(0, len(text) - segment, segment):
            logits, past = net.logits(text[None, at:at + segment], past, torch.tensor([at], device=text.device))
            total += float(F.cross_entropy(logits[0], text[at + 1:at + segment + 1], reduction="sum"))
        return total / (at + segment)
    for at in range(0, len(text) - 1, segment // 2):
        begin = max(0, at - segment // 2)
        window = text[begin:at + segment // 2 + 1]
        logits, _ = net.logits(window[None, :-1], past, torch.zeros(1, dtype=torch.long, device=text.device))
        total += float(F.cross_entropy(logits[0], window[1:], reduction="none")[at - begin:].sum())
    return total / (len(text) - 1)


def export(out, weights, model):
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(config(model), indent=1) + "\n")
    save_safetensors(out / "model.safetensors", {name: t.cpu() for name, t in weights.items()})


# ------------------------------------------------------------------------------------------------------------- training

def rate(progress, step):
    """Part of the full learning rate: up in 100 steps, level, then straight down to zero."""
    return min(1.0, (step + 1) / 100, (1 - progress) / (1 - FALLS_FROM))


class Training:
    def __init__(self, model, plays, prose, checkpoint, device):
        self.model, self.checkpoint, self.device = model, checkpoint, device
        self.text = numbers(plays + prose, device)
        torch.manual_seed(1)
        fresh = network.fresh_weights(model.shape, model.attentions)
        fixed = [n for n in fresh if n.endswith(network.FIXED)]
        self.w = {n: (t.bfloat16().float() if n in fixed else t).to(device).requires_grad_(n not in fixed) for n, t in fresh.items()}
        matrices = [n for n in self.w if n.startswith("layers.") and n.endswith(".weight") and self.w[n].dim() == 2]
        self.muon = Muon([self.w[n] for n in matrices])
        self.adam = torch.optim.AdamW([t for n, t in self.w.items() if n not in matrices + fixed], betas=(0.9, 0.98), weight_decay=0.0)
        self.average = Average(self.w, AVERAGE)
        self.net = Network(model.shape, model.attentions, self.w, SCALE, torch.bfloat16, dropper(model.dropout, device=device))
        batch = TOKENS // model.segment
        self.past = self.net.start(batch)
        self.reader = Reader(len(plays) - 1, len(prose) - 1, batch, model.segment, all(map(len, self.past)))
        self.step, self.read, self.seconds = 0, 0, 0.0

    def state(self):
        return {"weights": self.w, "average": self.average.weights, "muon": self.muon.momentum, "adam": self.adam.state_dict(),
                "past": self.past, "at": self.reader.at, "age": self.reader.age, "random": torch.get_rng_state(),
                "counts": (self.step, self.read, self.seconds)}

    def resume(self):
        saved = load_checkpoint(self.checkpoint, self.device)
        for name, t in saved["weights"].items():
            self.w[name].data.copy_(t)
        self.average.weights, self.muon.momentum, self.past = saved["average"], saved["muon"], saved["past"]
        self.adam.load_state_dict(saved["adam"])
        self.reader.at, self.reader.age = saved["at"].cpu(), saved["age"].cpu()
        torch.set_rng_state(saved["random"].cpu())
        self.step, self.read, self.seconds = saved["counts"]
        self.average.steps = self.step

    def one_step(self, progress):
        """-> the loss"""
        begin, age = (t.to(self.device) for t in self.reader.next(PROSE if progress < FALLS_FROM else PROSE_AT_LAST))
        at = begin[:, None] + torch.arange(self.model.segment + 1, device=self.device)
        bytes_read = self.text[at]
        logits, self.past = self.net.logits(bytes_read[:, :-1], self.past, age)
        loss = F.cross_entropy(logits.flatten(0, 1), bytes_read[:, 1:].flatten())
        loss.backward()
        part = rate(progress, self.step)
        self.muon.step(MATRIX_RATE * part)
        for group in self.adam.param_groups:
            group["lr"] = VECTOR_RATE * part
        self.adam.step()
        self.adam.zero_grad()
        self.average.step()
        self.step += 1
        self.read += TOKENS
        return loss.detach()

    def averaged(self, dtype):
        exact = {n: t.bfloat16().float() for n, t in self.average.weights.items()}
        return Network(self.model.shape, self.model.attentions, exact, SCALE, dtype)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--family", choices=FAMILIES)
    args.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "../shared/data")
    args.add_argument("--out", type=pathlib.Path, help="default: beside this file, or of a family in a folder of its own")
    args.add_argument("--checkpoint", type=pathlib.Path, default=HERE.parents[1] / "build/train/shakespeare.pt")
    args.add_argument("--epochs", type=float, help="how many bytes are read, as multiples of the plays; default: the model's")
    args.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args.add_argument("--show", type=float, default=300, help="seconds of processor time between checkpoints")
    args = args.parse_args()
    model = family(args.family) if args.family else shakespeare()
    if args.family:
        args.checkpoint = args.checkpoint.with_stem(f"{args.checkpoint.stem}-{args.family}")
    args.out = args.out or (HERE.with_name(f"shakespeare-{args.family}") if args.family else HERE)
    torch.set_num_threads(1)

    train, held_out = read_plays(args.data)
    training = Training(model, train, read_prose(args.data), args.checkpoint, args.device)
    if args.checkpoint.exists():
        training.resume()
    budget, unseen = (args.epochs or model.epochs) * len(train), numbers(held_out, args.device)
    print(f"{sum(t.numel() for t in training.w.values())} parameters, {len(train)} bytes to learn from, {len(held_out)} held out", flush=True)

    last, shown, losses = time.process_time(), time.process_time(), []
    while training.read < budget:
        losses.append(training.one_step(training.read / budget))
        training.seconds += time.process_time() - last
        last = time.process_time()
        if last - shown > args.show:
            save_checkpoint(args.checkpoint, training.state())
            now = nats(training.averaged(torch.bfloat16), unseen[:32768])
            print(f"{training.seconds / 60:6.1f} min  {training.read / len(train):5.2f} epochs  train {float(sum(losses)) / len(losses):.4f}"
                  f"  held out, its beginning {now:.4f}", flush=True)
            losses, last, shown = [], time.process_time(), time.process_time()
    save_checkpoint(args.checkpoint, training.state())
    export(args.out, training.average.weights, model)
    print(f"held out, in f32: {nats(training.averaged(torch.float32), unseen):.4f} after {training.seconds / 60:.1f} min")
    print(f"held out, counted: {Counts(train).nats(train, held_out):.4f}")


if __name__ == "__main__":
    main()
