"""Trains the Shakespeare language model: bytes in, the next byte out.

The text's last 5 % is held out; the rest is read in random windows for a fixed time of one processor, the learning rate
falling to zero as the time runs out. Stop it at any moment and start it again: it goes on from its last checkpoint.
The best weights on the held-out part so far lie in --out, in Heed's native format.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import collections
import json
import math
import pathlib
import struct
import time

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
HELD_OUT = 0.05
TOKENS = 4096  # of one step, whatever the length of its windows
WINDOWS = ((0.0, 256), (0.6, 512))  # from this part of the time on, windows this long: short ones are cheaper and teach as much at first
DROPOUT = 0.1
MATRIX_RATE, VECTOR_RATE, DECAY = 0.02, 3e-3, 0.1

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


def softmax_attention(q, k, v):
    """Causal, all [batch, n, heads, head width]. Written out: bf16 products beat torch's fused f32 attention here."""
    n = q.shape[1]
    q, k, v = ((rotate(q) * HEAD**-0.5).transpose(1, 2), rotate(k).transpose(1, 2), v.transpose(1, 2))
    future = torch.full((n, n), -math.inf, dtype=q.dtype).triu(1)
    # One window at a time, so that its n x n weights stay in the cache.
    return torch.stack([((a @ b.transpose(-1, -2) + future).softmax(-1) @ c).transpose(0, 1) for a, b, c in zip(q, k, v)])


ATTENTION = {"softmax": (softmax_attention, {"type": "softmax", "rope": {"theta": 10000}})}  # name -> function, options in config.json


# ----------------------------------------------------------------------------------------------------------- model

def fresh_weights():
    d, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    w = {"embed.tokens.weight": torch.randn(CONFIG["vocab_size"], d) * 0.02}
    for i in range(LAYERS):
        p = f"layers.{i}"
        for name in "qkv":
            w[f"{p}.attention.{name}.weight"] = torch.randn(d, d) * 0.5 * d**-0.5
        w[f"{p}.attention.o.weight"] = torch.zeros(d, d)  # a layer starts as the identity
        for name in ("up", "gate"):
            w[f"{p}.ffn.{name}.weight"] = torch.randn(inner, d) * 0.5 * d**-0.5
        w[f"{p}.ffn.down.weight"] = torch.zeros(d, inner)
    for name in [f"layers.{i}.norm{j}" for i in range(LAYERS) for j in (1, 2)] + ["norm"]:
        w[f"{name}.weight"], w[f"{name}.bias"] = torch.ones(d), torch.zeros(d)
    return w


def logits(w, ids, attend, dtype=torch.float32, drop=lambda x: x):
    """ids [batch, n] -> [batch, n, vocab]. `dtype` is that of the products; sums and norms are f32."""
    def linear(x, *names):
        return F.linear(x.to(dtype), torch.cat([w[f"{n}.weight"] for n in names]).to(dtype))

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], CONFIG["layer_norm_eps"])

    x = drop(w["embed.tokens.weight"][ids] * CONFIG["embedding_scale"])
    for i in range(LAYERS):
        p = f"layers.{i}"
        qkv = linear(norm(x, f"{p}.norm1"), *(f"{p}.attention.{n}" for n in "qkv"))
        heads = attend(*qkv.unflatten(-1, (3, -1, HEAD)).unbind(2))
        x = x + drop(linear(heads.flatten(2), f"{p}.attention.o"))
        gate, up = linear(norm(x, f"{p}.norm2"), f"{p}.ffn.gate", f"{p}.ffn.up").chunk(2, -1)
        x = x + drop(linear(F.silu(gate) * up, f"{p}.ffn.down"))
    return linear(norm(x, "norm"), "embed.tokens").float()


def dropper(p, size=1 << 24):
    """Dropout from one pool of random masks, entered at random places: fresh bits cost more than the layer itself."""
    pool = (torch.rand(size) >= p).float() / (1 - p)

    def drop(x):
        at = int(torch.randint(size - x.numel(), ()))
        return x * pool[at:at + x.numel()].view(x.shape)
    return drop


# ------------------------------------------------------------------------------------------------------- optimiser

def orthogonal(m):
    """Near the orthogonal factor of each matrix [count, rows, columns], by five Newton-Schulz steps (Jordan 2024)."""
    tall = m.shape[1] > m.shape[2]
    x = (m.transpose(1, 2) if tall else m).bfloat16()
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (2.0315 * a @ a - 4.7750 * a) @ x
    return (x.transpose(1, 2) if tall else x).float()


class Muon:
    """Momentum, then the direction of the nearest orthogonal matrix: for the layers' matrices. Same shapes go together."""

    def __init__(self, weights):
        shapes = sorted({tuple(w.shape) for w in weights})
        self.groups = [[w for w in weights if tuple(w.shape) == s] for s in shapes]
        self.momentum = [torch.zeros(len(g), *s) for g, s in zip(self.groups, shapes)]

    @torch.no_grad()
    def step(self, rate):
        for group, m in zip(self.groups, self.momentum):
            g = torch.stack([w.grad for w in group])
            m.lerp_(g, 0.05)
            update = orthogonal(g.lerp(m, 0.95)) * max(1, m.shape[1] / m.shape[2]) ** 0.5
            for w, u in zip(group, update):
                w.mul_(1 - rate * DECAY).sub_(u, alpha=rate)
                w.grad = None


# ------------------------------------------------------------------------------------------------- measure and export

@torch.no_grad()
def nats(w, text, attend, dtype=torch.float32, context=512):
    """Mean loss of a byte of `text`, each read after at least context / 2 bytes (where there are as many before it)."""
    total, half = 0.0, context // 2
    for at in range(0, len(text) - 1, half):
        begin = max(0, at - half)
        window = text[begin:at + half + 1]
        loss = F.cross_entropy(logits(w, window[None, :-1], attend, dtype)[0], window[1:], reduction="none")
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


def save_safetensors(path, tensors):
    """In bf16, half of f32's size; written aside and moved, so that the file is whole at any moment."""
    header, blobs, at = {}, [], 0
    for name, t in sorted(tensors.items()):
        raw = t.detach().bfloat16().contiguous().view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        blobs.append(raw)
        at += len(raw)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    aside = path.with_suffix(".tmp")
    aside.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(blobs))
    aside.rename(path)


def export(out, w, options):
    out.mkdir(parents=True, exist_ok=True)
    layer = {"attention": options, "ffn": {"type": "dense"}}
    (out / "config.json").write_text(json.dumps({**CONFIG, "layers": [layer] * LAYERS}, indent=1) + "\n")
    save_safetensors(out / "model.safetensors", w)


# ----------------------------------------------------------------------------------------------------------- training

def window_length(progress):
    return [n for start, n in WINDOWS if progress >= start][-1]


def rate(progress, step):
    """Part of the full learning rate: up in 100 steps, level for a third of the time, then straight down to zero."""
    return min(1.0, (step + 1) / 100, (1 - progress) / 0.7)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "../shared/data")
    args.add_argument("--out", type=pathlib.Path, default=HERE)
    args.add_argument("--checkpoint", type=pathlib.Path, default=HERE.parents[1] / "build/train/shakespeare.pt")
    args.add_argument("--minutes", type=float, default=25, help="of processor time")
    args.add_argument("--attention", choices=ATTENTION, default="softmax")
    args = args.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)

    text = torch.frombuffer(bytearray((args.data / "tinyshakespeare.train.txt").read_bytes()), dtype=torch.uint8).long()
    cut = int(len(text) * (1 - HELD_OUT))
    train, held_out = text[:cut], text[cut:]
    attend, options = ATTENTION[args.attention]

    w = {name: t.requires_grad_() for name, t in fresh_weights().items()}
    matrices = [n for n in w if n.startswith("layers.") and w[n].dim() == 2]
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
    drop, limit = dropper(DROPOUT), args.minutes * 60

    def check():
        """Measure, export if better, keep all that going on needs."""
        window = window_length(state["seconds"] / limit)  # it knows no places beyond
        now = nats({n: t.bfloat16().float() for n, t in w.items()}, held_out, attend, torch.bfloat16, window)
        if now < state["best"]:
            state["best"] = now
            export(args.out, w, options)
        args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        aside = args.checkpoint.with_suffix(".tmp")
        torch.save({"weights": w, "muon": muon.momentum, "adam": adam.state_dict(), "random": torch.get_rng_state(), "state": state}, aside)
        aside.rename(args.checkpoint)
        return now

    last, shown, losses = time.process_time(), state["seconds"], []
    while state["seconds"] < limit:
        progress = state["seconds"] / limit
        n, part = window_length(progress), rate(progress, state["step"])
        at = torch.randint(len(train) - n, (TOKENS // n, 1)) + torch.arange(n + 1)
        loss = F.cross_entropy(logits(w, train[at[:, :-1]], attend, torch.bfloat16, drop).flatten(0, 1), train[at[:, 1:]].flatten())
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
    print(f"held out, last weights as exported, in f32: {nats(exact, held_out, attend):.4f}")


if __name__ == "__main__":
    main()
