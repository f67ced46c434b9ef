"""Trains the Shakespeare language model: bytes in, the next byte out.

The text's last 5 % is held out; the rest is read in random windows for a fixed time of one processor, the learning rate
falling to zero as the time runs out. Stop it at any moment and start it again: it goes on from its last checkpoint.
The best weights on the held-out part so far lie in --out, in Heed's native format.
--attention trains the same model, of the same size and for the same time, with another way to attend.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import collections
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
from recipe import Muon, dropper, save_checkpoint, save_safetensors

HELD_OUT = 0.05
TOKENS = 4096  # of one step, whatever the length of its windows
WINDOWS = ((0.0, 256), (0.6, 512))  # from this part of the time on, windows this long: short ones are cheaper and teach as much at first
DROPOUT = 0.1
MATRIX_RATE, VECTOR_RATE = 0.02, 3e-3
MEMORY = 256  # newest tokens that a layer of the attentions with a window sees
FARTHEST = 16384  # absolute positions, where there are such, are learnt up to here

CONFIG = {
    "model_type": "heed",
    "architecture": "decoder",
    "tokenizer": "bytes",
    "vocab_size": 256,
    "hidden_size": 192,
    "num_attention_heads": 3,
    "intermediate_size": 432,
    "hidden_act": "swiglu",
    "norm": "pre",
    "norm_type": "layer",
    "layer_norm_eps": 1e-5,
    "embedding_scale": 16,
    "positions": "none",
    "attention_bias": False,
    "head": "lm",
    "tie_word_embeddings": True,
}
LAYERS = 6
HEAD = CONFIG["hidden_size"] // CONFIG["num_attention_heads"]


# ------------------------------------------------------------------------------------------------------- attention

def rotate(x, theta=10000.0):
    """Rotary positions, x [batch, n, heads, head width]; pair t is (x[t], x[t + half])."""
    n, half = x.shape[1], x.shape[-1] // 2
    angle = torch.arange(n)[:, None] * theta ** (-torch.arange(half) / half)
    cos, sin = angle.cos()[:, None].to(x.dtype), angle.sin()[:, None].to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def unseen(n, dtype, newest=None):
    """[n, n] to be added to scores: -inf for keys after the query, and for those that are not among the newest."""
    mask = torch.full((n, n), -math.inf, dtype=dtype)
    return mask.triu(1) if newest is None or newest >= n else mask.triu(1) + mask.tril(-newest)


# Each is causal: q, k, v [batch, n, heads, head width] and the layer's own weights by name -> what o is applied to. They
# go one window at a time, so that its n x n weights stay in the cache; bf16 products beat torch's fused f32 attention here.

def softmax(q, k, v, own):
    q, k, v = (rotate(q) * HEAD**-0.5).transpose(1, 2), rotate(k).transpose(1, 2), v.transpose(1, 2)
    mask = unseen(q.shape[2], q.dtype)
    return torch.stack([((a @ b.mT + mask).softmax(-1) @ c).transpose(0, 1) for a, b, c in zip(q, k, v)])


def sliding_window(q, k, v, own):
    q, k, v = (q * HEAD**-0.5).transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    mask = unseen(q.shape[2], q.dtype, MEMORY)
    return torch.stack([((a @ b.mT + mask).softmax(-1) @ c).transpose(0, 1) for a, b, c in zip(q, k, v)])


def linear(q, k, v, own, eps=1e-6):
    def normalised(weights, c):
        return weights @ c / (weights.sum(-1, keepdim=True) + eps)
    q, k, v = (F.elu(q) + 1).transpose(1, 2), (F.elu(k) + 1).transpose(1, 2), v.transpose(1, 2)
    return torch.stack([normalised((a @ b.mT).tril(), c).transpose(0, 1) for a, b, c in zip(q, k, v)])


def relative_memory(q, k, v, own):
    n, d = q.shape[1], CONFIG["hidden_size"]
    angle = torch.arange(n - 1, -1, -1)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    far = F.linear(torch.cat([angle.sin(), angle.cos()], -1).to(q.dtype), own["r.weight"].to(q.dtype))
    far = far.unflatten(-1, (-1, HEAD)).transpose(0, 1)  # [heads, n, head width], the farthest first
    content, position = ((q + own[name].to(q.dtype)) * HEAD**-0.5 for name in ("pos_bias_u", "pos_bias_v"))
    mask = unseen(n, q.dtype, MEMORY)

    def by_distance(scores):
        """Column n - 1 - t, of the keys t before the query, goes to where that key is."""
        return F.pad(scores, (1, 0)).flatten(1)[:, n:].view(-1, n, n)
    windows = zip(content.transpose(1, 2), position.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
    return torch.stack([((a @ b.mT + by_distance(p @ far.mT) + mask).softmax(-1) @ c).transpose(0, 1) for a, p, b, c in windows])


class Attention(typing.NamedTuple):
    attend: typing.Callable
    options: dict  # in config.json
    config: dict = {}  # what the rest of config.json has instead of CONFIG's
    own: dict = {}  # shapes of the layer's weights beside q, k, v and o


ATTENTION = {
    "softmax": Attention(softmax, {"rope": {"theta": 10000}}),
    "sliding_window": Attention(sliding_window, {"window": MEMORY}, {"positions": "sinusoidal"}),
    "linear": Attention(linear, {}, {"positions": "sinusoidal"}),
    # Its feed-forward gives up the weights that r takes, so that the model is no larger.
    "relative_memory": Attention(relative_memory, {"memory": MEMORY}, {"intermediate_size": CONFIG["intermediate_size"] - 64},
                                 {"r.weight": [192, 192], "pos_bias_u": [3, HEAD], "pos_bias_v": [3, HEAD]}),
}


# ----------------------------------------------------------------------------------------------------------- model

def fresh_weights(config, own):
    d, inner = config["hidden_size"], config["intermediate_size"]
    w = {"embed.tokens.weight": torch.randn(config["vocab_size"], d) * 0.02}
    for i in range(LAYERS):
        p = f"layers.{i}"
        for name in "qkv":
            w[f"{p}.attention.{name}.weight"] = torch.randn(d, d) * 0.5 * d**-0.5
        w[f"{p}.attention.o.weight"] = torch.zeros(d, d)  # a layer starts as the identity
        for name, shape in own.items():
            w[f"{p}.attention.{name}"] = torch.randn(shape) * 0.5 * d**-0.5
        for name in ("up", "gate"):
            w[f"{p}.ffn.{name}.weight"] = torch.randn(inner, d) * 0.5 * d**-0.5
        w[f"{p}.ffn.down.weight"] = torch.zeros(d, inner)
    for name in [f"layers.{i}.norm{j}" for i in range(LAYERS) for j in (1, 2)] + ["norm"]:
        w[f"{name}.weight"], w[f"{name}.bias"] = torch.ones(d), torch.zeros(d)
    return w


def sinusoid(start, n, d):
    """[n, d]: of each position from `start` on, sines in the even columns and cosines in the odd ones."""
    angle = torch.arange(start, start + n)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


class Network:
    """The weights at work, with the attention of that name: `dtype` is that of the products, sums and norms are f32."""

    def __init__(self, weights, attention, dtype=torch.float32, drop=lambda x: x):
        self.w, self.attention, self.dtype, self.drop = weights, ATTENTION[attention], dtype, drop
        self.absolute = self.attention.config.get("positions") == "sinusoidal"

    def linear(self, x, *names):
        return F.linear(x.to(self.dtype), torch.cat([self.w[f"{n}.weight"] for n in names]).to(self.dtype))

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"], CONFIG["layer_norm_eps"])

    def attend(self, x, p):
        qkv = self.linear(x, *(f"{p}.{n}" for n in "qkv"))
        own = {name: self.w[f"{p}.{name}"] for name in self.attention.own}
        heads = self.attention.attend(*qkv.unflatten(-1, (3, -1, HEAD)).unbind(2), own)
        return self.linear(heads.flatten(2), f"{p}.o")

    def feed_forward(self, x, p):
        gate, up = self.linear(x, f"{p}.gate", f"{p}.up").chunk(2, -1)
        return self.linear(F.silu(gate) * up, f"{p}.down")

    def logits(self, ids, start=0):
        """ids [batch, n], bytes from position `start` on -> [batch, n, vocab]."""
        x = self.w["embed.tokens.weight"][ids] * CONFIG["embedding_scale"]
        if self.absolute:
            x = x + sinusoid(start, *x.shape[1:])
        x = self.drop(x)
        for p in (f"layers.{i}" for i in range(LAYERS)):
            x = x + self.drop(self.attend(self.norm(x, f"{p}.norm1"), f"{p}.attention"))
            x = x + self.drop(self.feed_forward(self.norm(x, f"{p}.norm2"), f"{p}.ffn"))
        return self.linear(self.norm(x, "norm"), "embed.tokens").float()


# ------------------------------------------------------------------------------------------------- measure and export

@torch.no_grad()
def nats(network, text, context=512):
    """Mean loss of a byte of `text`, each read after at least context / 2 bytes (where there are as many before it)."""
    total, half = 0.0, context // 2
    for at in range(0, len(text) - 1, half):
        begin = max(0, at - half)
        window = text[begin:at + half + 1]
        loss = F.cross_entropy(network.logits(window[None, :-1])[0], window[1:], reduction="none")
        total += float(loss[at - begin:].sum())
    return total / (len(text) - 1)


def counted_nats(train, text, order=5):
    """The baseline: the same mean from counts of up to `order` bytes, interpolated after Witten and Bell."""
    counts = collections.Counter(train[i:i + n] for n in range(1, order + 1) for i in range(len(train) - n + 1))
    times, kinds, total = collections.Counter(), collections.Counter(), 0.0
    for gram, count in counts.items():
        times[gram[:-1]] += count
        kinds[gram[:-1]] += 1
    whole = train[-order:] + text
    for at in range(order, len(whole)):
        p = 1 / 256
        for before in (whole[at - n:at] for n in range(order)):
            if not times[before]:
                break
            p = (counts[before + whole[at:at + 1]] + kinds[before] * p) / (times[before] + kinds[before])
        total -= math.log(p)
    return total / len(text)


def export(out, w, config):
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_safetensors(out / "model.safetensors", w)


# ----------------------------------------------------------------------------------------------------------- training

def window_length(progress):
    return [n for start, n in WINDOWS if progress >= start][-1]


def rate(progress, step):
    """Part of the full learning rate: up in 100 steps, level for a third of the time, then straight down to zero."""
    return min(1.0, (step + 1) / 100, (1 - progress) / 0.7)


def first_position(n):
    """Where a training window stands: at the beginning half of the time, else anywhere that is to be learnt."""
    return int(torch.randint(2, ()) * torch.randint(FARTHEST - n, ()))


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "../shared/data")
    args.add_argument("--out", type=pathlib.Path, help="default: beside this file, or with another attention in a folder of its own")
    args.add_argument("--checkpoint", type=pathlib.Path, default=HERE.parents[1] / "build/train/shakespeare.pt")
    args.add_argument("--minutes", type=float, default=25, help="of processor time")
    args.add_argument("--attention", choices=ATTENTION, default="softmax")
    args = args.parse_args()
    if args.attention != "softmax":
        args.checkpoint = args.checkpoint.with_stem(f"{args.checkpoint.stem}-{args.attention}")
    args.out = args.out or (HERE if args.attention == "softmax" else HERE.with_name(f"shakespeare-{args.attention}"))
    torch.set_num_threads(1)
    torch.manual_seed(1)

    text = torch.frombuffer(bytearray((args.data / "tinyshakespeare.train.txt").read_bytes()), dtype=torch.uint8).long()
    cut = int(len(text) * (1 - HELD_OUT))
    train, held_out = text[:cut], text[cut:]
    attention = ATTENTION[args.attention]
    layer = {"attention": {"type": args.attention, **attention.options}, "ffn": {"type": "dense"}}
    config = {**CONFIG, **attention.config, "layers": [layer] * LAYERS}

    w = {name: t.requires_grad_() for name, t in fresh_weights(config, attention.own).items()}
    matrices = [n for n in w if n.startswith("layers.") and n.endswith(".weight") and w[n].dim() == 2]
    muon = Muon([w[n] for n in matrices])
    adam = torch.optim.AdamW([w[n] for n in w if n not in matrices], betas=(0.9, 0.98), weight_decay=0.0)
    state = {"step": 0, "seconds": 0.0, "best": math.inf}
    if args.checkpoint.exists():
        saved = torch.load(args.checkpoint)
        for name in w:
            w[name].data.copy_(saved["weights"][name])
        muon.momentum = saved["muon"]
        adam.load_state_dict(saved["adam"])
        torch.set_rng_state(saved["random"])
        state = saved["state"]
    network, limit = Network(w, args.attention, torch.bfloat16, dropper(DROPOUT)), args.minutes * 60

    def check():
        """Measure, export if better, keep all that going on needs."""
        window = window_length(state["seconds"] / limit)  # it knows no places beyond
        now = nats(Network({n: t.bfloat16().float() for n, t in w.items()}, args.attention, torch.bfloat16), held_out, window)
        if now < state["best"]:
            state["best"] = now
            export(args.out, w, config)
        save_checkpoint(args.checkpoint, {"weights": w, "muon": muon.momentum, "adam": adam.state_dict(), "random": torch.get_rng_state(), "state": state})
        return now

    last, shown, losses = time.process_time(), state["seconds"], []
    while state["seconds"] < limit:
        progress = state["seconds"] / limit
        n, part = window_length(progress), rate(progress, state["step"])
        at = torch.randint(len(train) - n, (TOKENS // n, 1)) + torch.arange(n + 1)
        loss = F.cross_entropy(network.logits(train[at[:, :-1]], first_position(n)).flatten(0, 1), train[at[:, 1:]].flatten())
        loss.backward()
        muon.step(MATRIX_RATE * part)
        for group in adam.param_groups:
            group["lr"] = VECTOR_RATE * part
        adam.step()
        adam.zero_grad()
        losses.append(float(loss))
        state["step"] += 1
        state["seconds"] += time.process_time() - last
        last = time.process_time()
        if state["seconds"] - shown > 300:
            print(f"{state['seconds'] / 60:5.1f} min  step {state['step']}  window {n}  train {sum(losses) / len(losses):.4f}  held out {check():.4f}", flush=True)
            shown, losses, last = state["seconds"], [], time.process_time()
    print(f"held out, during training: {check():.4f}, best {state['best']:.4f}")
    counted = counted_nats(*(bytes(part.tolist()) for part in (train, held_out)))
    print(f"held out, counted: {counted:.4f}")
    exact = {name: t.detach().bfloat16().float() for name, t in w.items()}
    print(f"held out, last weights as exported, in f32: {nats(Network(exact, args.attention), held_out):.4f}")


if __name__ == "__main__":
    main()
