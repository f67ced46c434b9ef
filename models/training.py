"""How the recipes of pictures, sets and tables train, and the baselines that their cards compare with.

Passes over the examples in an order drawn anew for each, Muon for the layers' matrices, AdamW for the rest, both rates falling
to zero. What was stopped at any moment goes on from its last checkpoint, and ends with the same weights.
"""
import json
import pathlib
import time
import typing

import torch
import torch.nn.functional as F

from recipe import Muon, save_checkpoint, save_safetensors


class Plan(typing.NamedTuple):
    examples: int
    batch: int
    passes: float
    checkpoint: pathlib.Path
    matrix_rate: float = 0.02
    vector_rate: float = 3e-3
    level: float = 0.3  # part of the steps after which the rates begin to fall

    def steps(self):
        return round(self.passes * (self.examples // self.batch))

    def part_of_rate(self, step):
        return min(1.0, (step + 1) / 100, (1 - step / self.steps()) / (1 - self.level))

    def rows(self, step):
        """The examples of a step; those left over at a pass's end wait for another."""
        at = step % (self.examples // self.batch)
        order = torch.randperm(self.examples, generator=torch.Generator().manual_seed(step // (self.examples // self.batch)))
        return order[at * self.batch:(at + 1) * self.batch]


class Optimiser:
    def __init__(self, w):
        matrices = [n for n, t in w.items() if n.endswith(".weight") and t.dim() == 2 and min(t.shape) >= 16
                    and not n.startswith(("embed.", "classifier.", "lm_head."))]
        rest = [n for n in w if n not in matrices]
        groups = [[w[n] for n in rest if (w[n].dim() > 1) == decays] for decays in (True, False)]
        self.muon = Muon([w[n] for n in matrices])
        self.adam = torch.optim.AdamW([{"params": groups[0], "weight_decay": 0.01}, {"params": groups[1], "weight_decay": 0.0}], betas=(0.9, 0.98))

    def step(self, matrix_rate, vector_rate):
        self.muon.step(matrix_rate)
        for group in self.adam.param_groups:
            group["lr"] = vector_rate
        self.adam.step()
        self.adam.zero_grad()


def train(w, loss, plan, each_minute=lambda: ""):
    """Changes the weights by name `w`; loss(examples' numbers) of a batch. The state is kept every ten seconds of processor
    time; each minute what each_minute says is shown. -> the weights as they are stored"""
    for t in w.values():
        t.requires_grad_()
    optimiser = Optimiser(w)
    state = {"step": 0, "seconds": 0.0}
    if plan.checkpoint.exists():
        saved = torch.load(plan.checkpoint)
        for name in w:
            w[name].data.copy_(saved["weights"][name])
        optimiser.muon.momentum = saved["muon"]
        optimiser.adam.load_state_dict(saved["adam"])
        torch.set_rng_state(saved["random"])
        state = saved["state"]

    def keep():
        save_checkpoint(plan.checkpoint, {"weights": w, "muon": optimiser.muon.momentum, "adam": optimiser.adam.state_dict(),
                                          "random": torch.get_rng_state(), "state": state})

    losses, last, shown, kept = [], time.process_time(), state["seconds"], state["seconds"]
    while state["step"] < plan.steps():
        value = loss(plan.rows(state["step"]))
        value.backward()
        part = plan.part_of_rate(state["step"])
        optimiser.step(plan.matrix_rate * part, plan.vector_rate * part)
        losses.append(float(value.detach()))
        state["step"] += 1
        state["seconds"] += time.process_time() - last
        last = time.process_time()
        ended = state["step"] == plan.steps()
        if state["seconds"] - kept > 10 or ended:
            keep()
            kept, last = state["seconds"], time.process_time()
        if state["seconds"] - shown > 60 or ended:
            print(f"{state['seconds'] / 60:5.1f} min  step {state['step']} of {plan.steps()}  loss {sum(losses) / len(losses):.4f}  {each_minute()}", flush=True)
            losses, last, shown = [], time.process_time(), state["seconds"]
    return {name: t.detach().bfloat16().float() for name, t in w.items()}


def export(out, w, config, **files):
    """config.json, model.safetensors, and other files of JSON by their stems."""
    out.mkdir(parents=True, exist_ok=True)
    for stem, content in {"config": config, **files}.items():
        (out / f"{stem}.json").write_text(json.dumps(content, indent=1) + "\n")
    save_safetensors(out / "model.safetensors", w)


@torch.no_grad()
def in_batches(f, count, size=250):
    """f(examples' numbers) of them all, joined."""
    return torch.cat([f(rows) for rows in torch.arange(count).split(size)])


# --------------------------------------------------------------------------------------------------------- baselines

def share(right):
    """Of booleans: how many are true, with its standard error."""
    p = float(right.float().mean())
    return f"{p:.4f} ± {(p * (1 - p) / len(right)) ** 0.5:.4f}"


def area(scores, positive):
    """Under the ROC curve: how often a positive has the higher score, ties counted half."""
    values, place = scores.unique(return_inverse=True)
    counts = torch.zeros(2, len(values), dtype=torch.float64)
    counts.index_put_((positive.long(), place), torch.ones(len(scores), dtype=torch.float64), accumulate=True)
    below = counts[0].cumsum(0) - counts[0] / 2
    return float((counts[1] * below).sum() / counts[1].sum() / counts[0].sum())


def logistic_regression(x, labels, classes, penalty=1e-4, steps=200):
    """-> scores(x) of the regression fitted to x [n, features], with the squares of its weights as a penalty."""
    mean, deviation = x.mean(0), x.std(0).clamp(min=1e-3)

    def standard(x):
        return (x - mean) / deviation
    w, b = torch.zeros(classes, x.shape[1], requires_grad=True), torch.zeros(classes, requires_grad=True)
    search = torch.optim.LBFGS([w, b], max_iter=steps, history_size=20, line_search_fn="strong_wolfe")
    inputs = standard(x)

    def objective():
        search.zero_grad()
        value = F.cross_entropy(F.linear(inputs, w, b), labels) + penalty * (w * w).sum()
        value.backward()
        return value
    search.step(objective)
    return lambda x: F.linear(standard(x), w.detach(), b.detach())
