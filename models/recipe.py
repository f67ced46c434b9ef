"""What the recipes of the shipped models share: an optimiser for matrices, and the file that the weights go to."""
import json
import struct

import torch


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

    def __init__(self, weights, decay=0.1):
        shapes = sorted({tuple(w.shape) for w in weights})
        self.groups = [[w for w in weights if tuple(w.shape) == s] for s in shapes]
        self.momentum = [torch.zeros(len(g), *s, device=g[0].device) for g, s in zip(self.groups, shapes)]
        self.decay = decay

    @torch.no_grad()
    def step(self, rate):
        for group, m in zip(self.groups, self.momentum):
            g = torch.stack([w.grad for w in group])
            m.lerp_(g, 0.05)
            update = orthogonal(g.lerp(m, 0.95)) * max(1, m.shape[1] / m.shape[2]) ** 0.5
            for w, u in zip(group, update):
                w.mul_(1 - rate * self.decay).sub_(u, alpha=rate)
                w.grad = None


def dropper(p, size=1 << 24, device="cpu"):
    """Dropout from one pool of random masks, entered at random places: fresh bits cost more than the layer itself. The pool
    is bf16, so that what is bf16 stays so."""
    pool = (torch.rand(size, device=device) >= p).bfloat16() / (1 - p)

    def drop(x):
        at = int(torch.randint(size - x.numel(), ()))
        return x * pool[at:at + x.numel()].view(x.shape)
    return drop


class Average:
    """The weights' moving average: as good as a lower learning rate, at any moment."""

    def __init__(self, weights, keep):
        self.live, self.keep, self.steps = weights, keep, 0
        self.weights = {name: t.detach().clone() for name, t in weights.items()}

    @torch.no_grad()
    def step(self):
        self.steps += 1
        torch._foreach_lerp_(list(self.weights.values()), [t.detach() for t in self.live.values()], 1 - min(self.keep, self.steps / (self.steps + 9)))


def save_safetensors(path, tensors, dtype=torch.bfloat16):
    """In bf16, half of f32's size, or in f32, but whole numbers as they are; written aside and moved, so that the file is
    whole at any moment."""
    named = {torch.bfloat16: ("BF16", torch.int16), torch.float32: ("F32", torch.int32), torch.int64: ("I64", torch.int64)}
    header, blobs, at = {}, [], 0
    for name, t in sorted(tensors.items()):
        t = t.detach().to(dtype if t.is_floating_point() else torch.int64).contiguous()
        raw = t.view(named[t.dtype][1]).numpy().tobytes()
        header[name] = {"dtype": named[t.dtype][0], "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        blobs.append(raw)
        at += len(raw)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    aside = path.with_suffix(".tmp")
    aside.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(blobs))
    aside.rename(path)


def load_safetensors(path):
    """-> f32 tensors by name, of a file that save_safetensors wrote."""
    raw = path.read_bytes()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, t in json.loads(raw[8:start]).items():
        begin, end = t["data_offsets"]
        dtype = {"BF16": torch.bfloat16, "F32": torch.float32}[t["dtype"]]
        tensors[name] = torch.frombuffer(bytearray(raw[start + begin:start + end]), dtype=dtype).view(t["shape"]).float()
    return tensors


def save_checkpoint(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".tmp")
    torch.save(content, aside)
    aside.rename(path)


def load_checkpoint(path, device="cpu"):
    return torch.load(path, map_location=device, weights_only=True)
