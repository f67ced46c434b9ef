"""Heed's pre-norm layers for recipes, by the names of their tensors, without biases."""
import torch
import torch.nn.functional as F


def fresh_layer(p, d, inner, act, first_norm=True):
    """The weights of one layer, which is the identity at first."""
    w = {f"{p}.attention.{name}.weight": torch.randn(d, d) * 0.5 * d**-0.5 for name in "qkv"}
    w[f"{p}.attention.o.weight"] = torch.zeros(d, d)
    for name in ("up", "gate") if act.endswith("glu") else ("up",):
        w[f"{p}.ffn.{name}.weight"] = torch.randn(inner, d) * 0.5 * d**-0.5
    w[f"{p}.ffn.down.weight"] = torch.zeros(d, inner)
    for name in ("norm1", "norm2") if first_norm else ("norm2",):
        w |= fresh_norm(f"{p}.{name}", d)
    return w


def fresh_norm(name, d):
    return {f"{name}.weight": torch.ones(d), f"{name}.bias": torch.zeros(d)}


def fresh_linear(name, size, source):
    return {f"{name}.weight": torch.randn(size, source) * source**-0.5, f"{name}.bias": torch.zeros(size)}


ACTIVATION = {"gelu": F.gelu, "swiglu": F.silu, "reglu": F.relu}


class Network:
    """The weights at work. `dtype` is that of the products, sums and norms are f32."""

    def __init__(self, weights, act="gelu", dtype=torch.float32, drop=lambda x: x, eps=1e-5):
        self.w, self.act, self.dtype, self.drop, self.eps = weights, act, dtype, drop, eps

    def linear(self, x, *names):
        bias = self.w.get(f"{names[0]}.bias")
        weight = torch.cat([self.w[f"{n}.weight"] for n in names])
        return F.linear(x.to(self.dtype), weight.to(self.dtype), None if bias is None else bias.to(self.dtype))

    def norm(self, x, name):
        return F.layer_norm(x.float(), x.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"], self.eps)

    def layer(self, x, p, heads, attend):
        """x [..., n, d]; attend(q, k, v and what they are of, [..., n, 3, heads, head width]) -> [..., n, heads, head width]."""
        h = self.norm(x, f"{p}.norm1") if f"{p}.norm1.weight" in self.w else x
        qkv = self.linear(h, *(f"{p}.attention.{name}" for name in "qkv")).unflatten(-1, (3, heads, -1))
        x = x + self.drop(self.linear(attend(qkv).flatten(-2), f"{p}.attention.o"))
        return x + self.drop(self.feed_forward(self.norm(x, f"{p}.norm2"), f"{p}.ffn"))

    def feed_forward(self, x, p):
        act = ACTIVATION[self.act]
        if self.act.endswith("glu"):
            gate, up = self.linear(x, f"{p}.gate", f"{p}.up").chunk(2, -1)
            return self.linear(act(gate) * up, f"{p}.down")
        return self.linear(act(self.linear(x, f"{p}.up")), f"{p}.down")


def attend_all(qkv, bias=None):
    """Every row to every row: [..., n, 3, heads, head width] -> [..., n, heads, head width]; bias is added to the scores."""
    q, k, v = (t.transpose(-2, -3) for t in qkv.unbind(-3))
    scores = (q * q.shape[-1]**-0.5) @ k.mT
    return ((scores if bias is None else scores + bias).softmax(-1) @ v).transpose(-2, -3)
