"""The byte decoders of the Shakespeare models, as their training and their measurements compute them.

A text is read in segments. What a layer remembers of the segments before is handed from one to the next, without a
gradient, so that a model of constant memory learns at every age of a text that it will be asked for. `age` [batch] says how
many bytes of each text have been read before the segment; at age 0 nothing is remembered, whatever the memory holds.
docs/variants.md says what each attention means.
"""
import math
import typing

import torch
import torch.nn.functional as F

EPS = 1e-5


class Shape(typing.NamedTuple):
    layers: int
    width: int
    heads: int
    inner: int

    @property
    def head(self):
        return self.width // self.heads


# -------------------------------------------------------------------------------------------------- rows and positions

def rotate(x, first=0, theta=10000.0):
    """Rotary positions of x [..., n, head width], from `first` on; pair t is (x[t], x[t + half])."""
    n, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.arange(first, first + n, device=x.device)[:, None] * theta ** (-torch.arange(half, device=x.device) / half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def alibi_slopes(heads):
    p = 2 ** int(math.log2(heads))
    return [2.0 ** (-8 * (h + 1) / p) for h in range(p)] + [2.0 ** (-8 * (2 * h + 1) / (2 * p)) for h in range(heads - p)]


def chunked(x, size, step):
    """x [batch, heads, n, head width] -> [batch, heads, chunks, size, head width], a chunk every `step` rows."""
    return x.unflatten(2, (-1, size)) if size == step else x.unfold(2, size, step).mT


def attended(scores, v):
    """softmax(scores) v, [batch, heads, chunks, rows, ...] -> [batch, heads, n, head width]."""
    return (scores.softmax(-1) @ v).flatten(2, 3)


def minus_infinity_unless(seen, dtype):
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -math.inf)


def rows_since_start(age, first, count, step=1):
    """[batch, 1, chunks, 1, keys], whether a key is of this text: chunk c's key t is byte first[c] + step t of the segment."""
    at = first[:, None] + step * torch.arange(count, device=age.device)
    return (at[None] >= -age[:, None, None])[:, None, :, None]


class Band:
    """Rows in chunks, each of which reads its own keys and those of `window` bytes before the chunk."""

    def __init__(self, window, n):
        self.window, self.n = window, n
        self.chunk = min(n, max(64, window // 2))
        self.keys = self.window + self.chunk

    def remembered(self, past, t):
        """[past ; t], cut into what each chunk reads, and what the next segment shall remember of it."""
        both = torch.cat([past, t], 2)
        return chunked(both, self.keys, self.chunk), both[:, :, -self.window:].detach()

    def mask(self, age, dtype):
        row, key = torch.arange(self.chunk, device=age.device)[:, None], torch.arange(self.keys, device=age.device)[None]
        distance = row + self.window - key
        first = torch.arange(0, self.n, self.chunk, device=age.device) - self.window
        seen = (distance >= 0) & (distance < self.window)
        return minus_infinity_unless(seen & rows_since_start(age, first, self.keys), dtype)


# ---------------------------------------------------------------------------------------------------------- attentions

class Softmax:
    """All bytes before; trained on windows from their beginning, with no memory of what was before them."""
    chunk = 128

    def __init__(self, shape, alibi=False):
        self.shape, self.alibi = shape, alibi
        self.config = {"type": "softmax", "rope": {"theta": 10000}, **({"alibi": True} if alibi else {})}

    def own(self):
        return {}

    def start(self, batch, device, dtype):
        return ()

    def __call__(self, x, q, k, v, own, past, age):
        n, device = q.shape[2], q.device
        q, k = rotate(q) * self.shape.head ** -0.5, rotate(k)
        slopes = torch.tensor(alibi_slopes(self.shape.heads) if self.alibi else [0.0], device=device)[:, None, None]
        rows = []
        for begin in range(0, n, self.chunk):  # each to the keys of its own chunk and those before
            end = min(n, begin + self.chunk)
            distance = torch.arange(begin, end, device=device)[:, None] - torch.arange(end, device=device)[None]
            mask = minus_infinity_unless(distance >= 0, q.dtype) - (slopes * distance).to(q.dtype)
            rows.append((q[:, :, begin:end] @ k[:, :, :end].mT + mask).softmax(-1) @ v[:, :, :end])
        return torch.cat(rows, 2), ()


class Window:
    """The newest `window` bytes: softmax's with rotary positions, or Longformer's, which has none."""

    def __init__(self, shape, window, rotary):
        self.shape, self.window, self.rotary = shape, window, rotary
        self.config = {"type": "softmax", "rope": {"theta": 10000}, "window": window} if rotary else \
                      {"type": "sliding_window", "window": window}

    def own(self):
        return {}

    def start(self, batch, device, dtype):
        return tuple(torch.zeros(batch, self.shape.heads, self.window, self.shape.head, dtype=dtype, device=device) for _ in "kv")

    def __call__(self, x, q, k, v, own, past, age):
        band = Band(self.window, q.shape[2])
        keys, past_k = band.remembered(past[0], k)
        values, past_v = band.remembered(past[1], v)
        q = chunked(q, band.chunk, band.chunk) * self.shape.head ** -0.5
        if self.rotary:  # by the place in the chunk's keys: distances are what counts
            q, keys = rotate(q, band.window), rotate(keys)
        return attended(q @ keys.mT + band.mask(age, q.dtype), values), (past_k, past_v)


class Linear:
    """A product of features of queries and keys: the past is a matrix and a vector a head."""
    chunk = 64

    def __init__(self, shape):
        self.shape, self.features = shape, shape.head
        self.config = {"type": "linear"}

    def own(self):
        return {}

    def start(self, batch, device, dtype):
        shape = batch, self.shape.heads, self.features
        return torch.zeros(*shape, self.shape.head, device=device), torch.zeros(*shape, device=device)

    def phi(self, t, own):
        return t.clamp(max=0).exp() + t.relu()  # elu(t) + 1, whose gradient torch is slow to find in bf16

    def __call__(self, x, q, k, v, own, past, age, eps=1e-6):
        q, k = self.phi(q, own), self.phi(k, own)
        q, k, v = (chunked(t, self.chunk, self.chunk) for t in (q, k, v))
        kept = (age > 0)[:, None, None]
        memory, norm = past[0] * kept[..., None], past[1] * kept
        chunks, sums = (k.mT @ v).float(), k.float().sum(3)
        before = memory[:, :, None] + chunks.cumsum(2) - chunks
        norm_before = norm[:, :, None] + sums.cumsum(2) - sums
        near = (q @ k.mT).tril()
        above = (near @ v).float() + (q @ before.to(q.dtype)).float()
        below = near.float().sum(-1) + (q.float() @ norm_before[..., None])[..., 0]
        result = (above / (below[..., None] + eps)).to(v.dtype).flatten(2, 3)
        return result, (memory + chunks.sum(2).detach(), norm + sums.sum(2).detach())


class Performer(Linear):
    """The same with random features of the softmax."""

    def __init__(self, shape, features):
        super().__init__(shape)
        self.features = features
        self.config = {"type": "performer", "kernel": "relu", "num_features": features}

    def own(self):
        return {"features": [self.features, self.shape.head]}

    def phi(self, t, own):
        return torch.relu((t * self.shape.head ** -0.25) @ own["features"].mT.to(t.dtype)) + 1e-3

    def __call__(self, x, q, k, v, own, past, age):
        return super().__call__(x, q, k, v, own, past, age, 0.0)


def by_distance(scores):
    """[..., rows, distances], the farthest first, so that the last column of the last row is distance 0, to where the keys
    of that distance stand."""
    rows, n = scores.shape[-2:]
    return F.pad(scores, (1, 0)).flatten(-2)[..., rows:].unflatten(-1, (rows, n))


class Relative:
    """What the two attentions with Transformer-XL's positions share."""

    def own(self):
        heads, head = self.shape.heads, self.shape.head
        return {"r.weight": [self.shape.width, self.shape.width], "pos_bias_u": [heads, head], "pos_bias_v": [heads, head]}

    def scores(self, q, keys, own):
        """q [batch, heads, chunks, rows, head width], keys [.., keys, ..]: the last key is the last row's own."""
        d, n = self.shape.width, keys.shape[3]
        angle = torch.arange(n - 1, -1, -1, device=q.device)[:, None] * 10000.0 ** (-torch.arange(0, d, 2, device=q.device) / d)
        far = F.linear(torch.cat([angle.sin(), angle.cos()], -1).to(q.dtype), own["r.weight"].to(q.dtype))
        far = far.unflatten(-1, (self.shape.heads, -1)).transpose(0, 1)  # [heads, n, head width]
        content, position = ((q + own[name].to(q.dtype)[:, None, None]) * self.shape.head ** -0.5 for name in ("pos_bias_u", "pos_bias_v"))
        return content @ keys.mT + by_distance(torch.einsum("bhcrd,hnd->bhcrn", position, far))


class RelativeMemory(Relative):
    def __init__(self, shape, memory):
        self.shape, self.window = shape, memory
        self.config = {"type": "relative_memory", "memory": memory}
        self.start = Window(shape, memory, False).start

    def __call__(self, x, q, k, v, own, past, age):
        band = Band(self.window, q.shape[2])
        keys, past_k = band.remembered(past[0], k)
        values, past_v = band.remembered(past[1], v)
        scores = self.scores(chunked(q, band.chunk, band.chunk), keys, own)
        return attended(scores + band.mask(age, q.dtype), values), (past_k, past_v)


class Compressive(Relative):
    """Means of `rate` rows stand for what is before the memory. They are kept as rows, so that their keys and values learn."""

    def __init__(self, shape, segment, memory, compressed, rate):
        self.shape, self.segment, self.memory, self.compressed, self.rate = shape, segment, memory, compressed, rate
        self.config = {"type": "compressive", "segment": segment, "memory": memory, "compressed_memory": compressed,
                       "rate": rate, "compression": "mean"}

    def start(self, batch, device, dtype):
        rows = self.compressed + self.memory // self.rate
        return (*Window(self.shape, self.memory, False).start(batch, device, dtype), torch.zeros(batch, rows, self.shape.width, device=device))

    def __call__(self, x, q, k, v, own, past, age):
        n, size, device = q.shape[2], self.segment, q.device
        k_near, v_near = (torch.cat([p, t], 2) for p, t in zip(past, (k, v)))
        groups = torch.cat([past[2], x.detach().unflatten(1, (-1, self.rate)).mean(2)], 1)
        k_far, v_far = own["project"](groups)  # of the layer's norm of the rows
        near, step = self.memory + size, size // self.rate
        far = [chunked(t[:, :, :self.compressed + n // self.rate - step], self.compressed, step) for t in (k_far, v_far)]
        keys, values = (torch.cat([f, chunked(t, near, size)], 3) for f, t in zip(far, (k_near, v_near)))
        scores = self.scores(chunked(q, size, size), keys, own)
        first = torch.arange(0, n, size, device=device) - self.memory
        seen = torch.cat([rows_since_start(age, first - self.rate * self.compressed, self.compressed, self.rate),
                          rows_since_start(age, first, near)], -1)
        row, key = torch.arange(size, device=device)[:, None], torch.arange(self.compressed + near, device=device)[None]
        mask = minus_infinity_unless(seen & (key <= row + self.compressed + self.memory), q.dtype)
        kept = self.compressed + self.memory // self.rate
        return attended(scores + mask, values), (k_near[:, :, -self.memory:].detach(), v_near[:, :, -self.memory:].detach(), groups[:, -kept:])


class SparseFixed:
    """Its block of `stride` bytes, and the last `summary` bytes of every block before; blocks are counted from the text's
    beginning. Of the blocks before the segment, training remembers `remembered`."""

    def __init__(self, shape, stride, summary, remembered=24):
        self.shape, self.stride, self.summary, self.remembered = shape, stride, summary, remembered
        self.config = {"type": "sparse_fixed", "stride": stride, "summary": summary}

    def own(self):
        return {}

    def start(self, batch, device, dtype):
        rows = self.remembered * self.summary
        return tuple(torch.zeros(batch, self.shape.heads, rows, self.shape.head, dtype=dtype, device=device) for _ in "kv")

    def __call__(self, x, q, k, v, own, past, age):
        n, device = q.shape[2], q.device
        q = q * self.shape.head ** -0.5
        blocks, near_k, near_v = (t.unflatten(2, (-1, self.stride)) for t in (q, k, v))
        far_k, far_v = (torch.cat([p, t[:, :, :, -self.summary:].flatten(2, 3)], 2) for p, t in zip(past, (near_k, near_v)))
        block = torch.arange(n // self.stride, device=device)
        of = torch.arange(far_k.shape[2], device=device) // self.summary - past[0].shape[2] // self.summary  # the block of a summary
        seen = (of[None] < block[:, None])[None] & (of[None, None] * self.stride >= -age[:, None, None])
        far = (q @ far_k.mT).unflatten(2, (-1, self.stride)) + minus_infinity_unless(seen[:, None, :, None], q.dtype)
        near = blocks @ near_k.mT + minus_infinity_unless(torch.ones(self.stride, self.stride, dtype=torch.bool, device=device).tril(), q.dtype)
        weights = torch.cat([far, near], -1).softmax(-1)
        cut = far.shape[-1]
        result = weights[..., :cut].flatten(2, 3) @ far_v + (weights[..., cut:] @ near_v).flatten(2, 3)
        rows = self.remembered * self.summary
        return result, tuple(t[:, :, -rows:].detach() for t in (far_k, far_v))


class Lsh:
    """Bytes that hashes put into one bucket, the newest of them; trained on windows from their beginning."""

    def __init__(self, shape, chunk, hashes, buckets):
        self.shape, self.chunk, self.hashes, self.buckets = shape, chunk, hashes, buckets
        self.config = {"type": "lsh", "chunk_length": chunk, "num_hashes": hashes, "num_buckets": buckets, "strict_causal": True}

    def own(self):
        return {"rotations": [self.shape.heads, self.shape.head, self.hashes, self.buckets // 2]}

    def start(self, batch, device, dtype):
        return ()

    @torch.no_grad()
    def times_met(self, s, rotations):
        """[batch, heads, n, n]: in how many rounds key j stands in what query i reads."""
        turned = torch.einsum("bhnd,hdrc->bhrnc", s.float(), rotations)
        bucket = torch.cat([turned, -turned], -1).argmax(-1, keepdim=True)
        mine = torch.zeros(*bucket.shape[:-1], self.buckets, dtype=torch.int16, device=s.device).scatter_(-1, bucket, 1)
        chunk = (mine.cumsum(-2, dtype=torch.int16).gather(-1, bucket) - 1) // self.chunk  # of each byte in its bucket
        name = (chunk + bucket * (s.shape[2] // self.chunk + 3)).short()  # of the chunk; the one before is one less
        apart = name - name.mT
        return ((apart == 0) | (apart == 1)).tril().sum(2, dtype=torch.int16)

    def __call__(self, x, q, k, v, own, past, age):
        n, d = q.shape[2], self.shape.head
        keys = q * (torch.rsqrt(q.float().pow(2).mean(-1, keepdim=True) + 1e-6) * d ** -0.5).to(q.dtype)
        counts = self.times_met(q, own["rotations"])
        mask = counts.float().log().to(q.dtype).masked_fill_(torch.eye(n, dtype=torch.bool, device=q.device), -1e5)
        if n <= self.chunk:
            raise ValueError("a window is longer than a chunk")
        return (q @ keys.mT + mask).softmax(-1) @ v, ()


# --------------------------------------------------------------------------------------------------------- the decoder

FIXED = ("features", "rotations")  # drawn once, not trained


def fresh_weights(shape, attentions, vocabulary=256):
    d, inner = shape.width, shape.inner
    w = {"embed.tokens.weight": torch.randn(vocabulary, d) * 0.02}
    for i, attention in enumerate(attentions):
        p = f"layers.{i}"
        for name in products(attention):
            w[f"{p}.attention.{name}.weight"] = torch.randn(d, d) * 0.5 * d ** -0.5
        w[f"{p}.attention.o.weight"] = torch.zeros(d, d)  # a layer starts as the identity
        for name, size in attention.own().items():
            w[f"{p}.attention.{name}"] = torch.randn(size) * (1 if name in FIXED else 0.5 * d ** -0.5)
        for name in ("up", "gate"):
            w[f"{p}.ffn.{name}.weight"] = torch.randn(inner, d) * 0.5 * d ** -0.5
        w[f"{p}.ffn.down.weight"] = torch.zeros(d, inner)
    for name in [f"layers.{i}.norm{j}" for i in range(shape.layers) for j in (1, 2)] + ["norm"]:
        w[f"{name}.weight"], w[f"{name}.bias"] = torch.ones(d), torch.zeros(d)
    return w


def products(attention):
    return "qv" if isinstance(attention, Lsh) else "qkv"


def layer(attention, x, w, past, age, drop, dtype):
    """w: the layer's weights by their names in it."""
    def product(t, *names):
        return F.linear(t.to(dtype), torch.cat([w[f"{n}.weight"] for n in names]).to(dtype))

    def norm(t, name):
        return F.layer_norm(t, t.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], EPS)

    def heads(t):
        return t.unflatten(-1, (-1, attention.shape.head)).transpose(1, 2)

    names = products(attention)
    parts = dict(zip(names, map(heads, product(norm(x, "norm1"), *(f"attention.{n}" for n in names)).chunk(len(names), -1))))
    own = {name: w[f"attention.{name}"] for name in attention.own()}
    own["project"] = lambda rows: map(heads, product(norm(rows, "norm1"), "attention.k", "attention.v").chunk(2, -1))
    y, past = attention(x, parts["q"], parts.get("k"), parts["v"], own, past, age)
    x = x + drop(product(y.transpose(1, 2).flatten(2), "attention.o"))
    gate, up = product(norm(x, "norm2"), "ffn.gate", "ffn.up").chunk(2, -1)
    return x + drop(product(F.silu(gate) * up, "ffn.down")), past


class Network:
    """The weights at work. `dtype` is that of the products; sums and norms are f32."""

    def __init__(self, shape, attentions, weights, embedding_scale, dtype=torch.float32, drop=lambda x: x):
        self.shape, self.attentions, self.w = shape, attentions, weights
        self.scale, self.dtype, self.drop = embedding_scale, dtype, drop

    def start(self, batch):
        """What is remembered before the first segment."""
        device = self.w["norm.weight"].device
        return [a.start(batch, device, self.dtype) for a in self.attentions]

    def logits(self, ids, past, age):
        """ids [batch, n] -> [batch, n, vocabulary], and what is remembered then."""
        x, after = self.drop(self.w["embed.tokens.weight"][ids] * self.scale), []
        for i, (attention, memory) in enumerate(zip(self.attentions, past)):
            prefix = f"layers.{i}."
            own = {name[len(prefix):]: t for name, t in self.w.items() if name.startswith(prefix)}
            x, memory = layer(attention, x, own, memory, age, self.drop, self.dtype)
            after.append(memory)
        x = F.layer_norm(x, x.shape[-1:], self.w["norm.weight"], self.w["norm.bias"], EPS)
        return F.linear(x.to(self.dtype), self.w["embed.tokens.weight"].to(self.dtype)).float(), after
