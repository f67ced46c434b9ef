"""Trains the grapheme-to-phoneme model: the letters of an English word in, its phonemes out.

Every pronunciation of a word is an example; stress is dropped. A twentieth of the words, chosen by a hash of the spelling,
is held out: neither the network nor the baseline sees any of their pronunciations. A few more are watched meanwhile.
Stop it at any moment and start it again: it goes on from its last checkpoint.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import collections
import hashlib
import json
import math
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from recipe import Muon, load_safetensors, save_checkpoint, save_safetensors

HELD_OUT, WATCHED = range(0, 10), range(10, 11)  # of 200 parts, those held out, and the one that is watched meanwhile
BATCH = 256  # words
SMOOTHING = 0.1  # of the labels
MATRIX_RATE, VECTOR_RATE = 0.02, 3e-3

LETTERS = "'-.abcdefghijklmnopqrstuvwxyz"
PHONEMES = ("AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH").split()
VOCABULARY = {token: i for i, token in enumerate(["[UNK]", "[BOS]", "[EOS]", *LETTERS, *PHONEMES])}
BEGIN, END = VOCABULARY["[BOS]"], VOCABULARY["[EOS]"]
LONGEST = 40  # letters, or phonemes, with [EOS]

SELF = {"type": "softmax", "rope": {"theta": 10000}}
LAYERS = 3
CONFIG = {
    "model_type": "heed",
    "architecture": "encoder-decoder",
    "vocab_size": len(VOCABULARY),
    "hidden_size": 128,
    "num_attention_heads": 4,
    "intermediate_size": 320,
    "hidden_act": "swiglu",
    "norm": "pre",
    "norm_type": "layer",
    "layer_norm_eps": 1e-5,
    "embedding_scale": 12,
    "positions": "learned",
    "max_position_embeddings": LONGEST,
    "attention_bias": False,
    "layers": [{"attention": SELF, "ffn": {"type": "dense"}}] * LAYERS,
    "decoder_layers": [{"attention": SELF, "cross_attention": {"type": "full"}, "ffn": {"type": "dense"}}] * LAYERS,
    "head": "lm",
    "tie_word_embeddings": True,
    "decoder_start_token_id": BEGIN,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
}


# ------------------------------------------------------------------------------------------------------------- data

def tokenizer():
    """Letters are found wherever they stand, as added tokens; what is left of the text, but for spaces, is unknown.
    Lower case comes first, so phonemes, which are upper case, are never read: they are only written, with spaces between."""
    def added(token, special):
        return {"id": VOCABULARY[token], "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": not special, "special": special}
    end = {"[EOS]": {"id": "[EOS]", "ids": [END], "tokens": ["[EOS]"]}}
    text, other, stop = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[EOS]", "type_id": 0}}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added(t, True) for t in ("[UNK]", "[BOS]", "[EOS]")] + [added(t, False) for t in LETTERS],
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]},
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": {"type": "TemplateProcessing", "single": [text, stop], "pair": [text, other, stop], "special_tokens": end},
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": VOCABULARY, "unk_token": "[UNK]"}}


def fold(word):
    return int(hashlib.sha256(f"g2p {word}".encode()).hexdigest(), 16) % 200


def read_words(path):
    """-> {spelling: its pronunciations, each a tuple of phonemes}"""
    words = collections.defaultdict(list)
    for line in path.read_text(encoding="utf-8").split("\n"):
        fields = line.split("#")[0].split()
        if not fields:
            continue
        spelling, said = fields[0].split("(")[0], tuple(p.rstrip("012") for p in fields[1:])
        if said not in words[spelling]:
            words[spelling].append(said)
    return dict(words)


def padded(rows):
    """-> ids [rows, longest], which of them are there"""
    lengths = torch.tensor([len(r) for r in rows])
    present = torch.arange(int(lengths.max())) < lengths[:, None]
    return torch.zeros(present.shape, dtype=torch.long).masked_scatter_(present, torch.tensor([t for r in rows for t in r])), present


def source_ids(word):
    return [VOCABULARY[c] for c in word] + [END]


def target_ids(said):
    return [BEGIN] + [VOCABULARY[p] for p in said] + [END]


def batches(examples):
    """An endless stream of batches in random order, words of similar lengths together."""
    while True:
        order = torch.randperm(len(examples)).tolist()
        parts = [sorted(order[i:i + 40 * BATCH], key=lambda e: (len(examples[e][0]), len(examples[e][1]))) for i in range(0, len(order), 40 * BATCH)]
        found = [part[i:i + BATCH] for part in parts for i in range(0, len(part), BATCH)]
        for i in torch.randperm(len(found)).tolist():
            yield [examples[e] for e in found[i]]


# ----------------------------------------------------------------------------------------------------------- model

def fresh_weights():
    d, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    w = {}
    for stack, attentions in (("encoder", ["attention"]), ("decoder", ["attention", "cross_attention"])):
        w[f"{stack}.embed.tokens.weight"] = torch.randn(CONFIG["vocab_size"], d) * 0.02
        w[f"{stack}.embed.positions.weight"] = torch.randn(LONGEST, d) * 0.02
        for i in range(LAYERS):
            p = f"{stack}.layers.{i}"
            for attention in attentions:
                for name in "qkv":
                    w[f"{p}.{attention}.{name}.weight"] = torch.randn(d, d) * 0.5 * d**-0.5
                w[f"{p}.{attention}.o.weight"] = torch.zeros(d, d)  # a layer starts as the identity
            for name in ("up", "gate"):
                w[f"{p}.ffn.{name}.weight"] = torch.randn(inner, d) * 0.5 * d**-0.5
            w[f"{p}.ffn.down.weight"] = torch.zeros(d, inner)
            for norm in ["norm1", "norm2"] + ["norm_cross"] * (len(attentions) - 1):
                w[f"{p}.{norm}.weight"], w[f"{p}.{norm}.bias"] = torch.ones(d), torch.zeros(d)
        w[f"{stack}.norm.weight"], w[f"{stack}.norm.bias"] = torch.ones(d), torch.zeros(d)
    return w


def rotate(x, theta=10000.0):
    """Rotary positions, x [batch, heads, n, head width]; pair t is (x[t], x[t + half])."""
    n, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.arange(n)[:, None] * theta ** (-torch.arange(half) / half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Network:
    """The weights at work: `dtype` is that of the products, norms and sums are f32."""

    def __init__(self, weights, dtype=torch.float32):
        self.w, self.dtype = weights, dtype

    def linear(self, x, *names):
        return F.linear(x.to(self.dtype), torch.cat([self.w[f"{n}.weight"] for n in names]).to(self.dtype))

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"], CONFIG["layer_norm_eps"])

    def embed(self, stack, ids):
        x = self.w[f"{stack}.embed.tokens.weight"][ids] * CONFIG["embedding_scale"]
        return x + self.w[f"{stack}.embed.positions.weight"][:ids.shape[1]]

    def attend(self, p, q, k, v, mask):
        q, k, v = (t.unflatten(-1, (CONFIG["num_attention_heads"], -1)).transpose(1, 2) for t in (q, k, v))
        if "cross" not in p:
            q, k = rotate(q), rotate(k)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + mask  # for so short rows faster than torch's fused attention
        return self.linear((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), f"{p}.o")

    def own(self, p, x, mask):
        q, k, v = self.linear(x, *(f"{p}.{n}" for n in "qkv")).chunk(3, -1)
        return self.attend(p, q, k, v, mask)

    def cross(self, p, x, memory, mask):
        k, v = self.linear(memory, f"{p}.k", f"{p}.v").chunk(2, -1)
        return self.attend(p, self.linear(x, f"{p}.q"), k, v, mask)

    def feed_forward(self, p, x):
        gate, up = self.linear(x, f"{p}.gate", f"{p}.up").chunk(2, -1)
        return self.linear(F.silu(gate) * up, f"{p}.down")

    def encode(self, ids, present):
        """[batch, n] -> [batch, n, d]"""
        x, mask = self.embed("encoder", ids), self.mask(present)
        for p in (f"encoder.layers.{i}" for i in range(LAYERS)):
            x = x + self.own(f"{p}.attention", self.norm(x, f"{p}.norm1"), mask)
            x = x + self.feed_forward(f"{p}.ffn", self.norm(x, f"{p}.norm2"))
        return self.norm(x, "encoder.norm")

    def decode(self, ids, memory, present):
        """[batch, n], its source as encoded -> logits [batch, n, vocabulary]"""
        x, mask = self.embed("decoder", ids), self.mask(present)
        past = torch.full((ids.shape[1], ids.shape[1]), -math.inf).triu(1).to(self.dtype)
        for p in (f"decoder.layers.{i}" for i in range(LAYERS)):
            x = x + self.own(f"{p}.attention", self.norm(x, f"{p}.norm1"), past)
            x = x + self.cross(f"{p}.cross_attention", self.norm(x, f"{p}.norm_cross"), memory, mask)
            x = x + self.feed_forward(f"{p}.ffn", self.norm(x, f"{p}.norm2"))
        return self.linear(self.norm(x, "decoder.norm"), "decoder.embed.tokens").float()

    def mask(self, present):
        return torch.zeros(present.shape, dtype=self.dtype).masked_fill_(~present, -math.inf)[:, None, None]

    def loss(self, examples):
        ids, present = padded([s for s, _ in examples])
        targets, there = padded([t for _, t in examples])
        logits = self.decode(targets[:, :-1], self.encode(ids, present), present)
        return F.cross_entropy(logits[there[:, 1:]], targets[:, 1:][there[:, 1:]], label_smoothing=SMOOTHING)


# --------------------------------------------------------------------------------------------------------- measures

@torch.no_grad()
def greedy(network, words):
    """-> for each word, its phonemes"""
    said = {}
    order = sorted(words, key=len)
    for part in (order[i:i + 512] for i in range(0, len(order), 512)):
        ids, present = padded([source_ids(w) for w in part])
        memory = network.encode(ids, present)
        written = torch.full((len(part), 1), BEGIN)
        while written.shape[1] < LONGEST and not (written == END).any(1).all():
            written = torch.cat([written, network.decode(written, memory, present)[:, -1:].argmax(-1)], 1)
        said.update((w, spelled(row[1:])) for w, row in zip(part, written.tolist()))
    return [said[w] for w in words]


def spelled(ids):
    names = list(VOCABULARY)
    return tuple(names[i] for i in (ids[:ids.index(END)] if END in ids else ids))


class Beam:
    """One word's search as Heed's beam search is defined, length penalty 1: a score is a sum of log-probabilities / length."""

    def __init__(self, width):
        self.width, self.live, self.ended, self.done = width, [(0.0, [BEGIN])], [], False

    def step(self, logp):
        """logp [live, vocabulary], of what comes after each live one"""
        sums, best = (logp + torch.tensor([total for total, _ in self.live])[:, None]).flatten().topk(2 * self.width)
        grown = [(s, self.live[i // len(VOCABULARY)][1] + [i % len(VOCABULARY)]) for s, i in zip(sums.tolist(), best.tolist())]
        length = len(grown[0][1]) - 1
        self.end([(s / length, tokens) for s, tokens in grown[:self.width] if tokens[-1] == END])
        self.live = [g for g in grown if g[1][-1] != END][:self.width]
        self.done = len(self.ended) == self.width and self.live[0][0] / length <= self.ended[-1][0]

    def end(self, more):
        self.ended = sorted(self.ended + more, key=lambda e: -e[0])[:self.width]

    def best(self):
        if not self.done:
            self.end([(s / (len(tokens) - 1), tokens) for s, tokens in self.live])
        return spelled(self.ended[0][1][1:])


@torch.no_grad()
def beam(network, words, width=4):
    """-> for each word, its phonemes"""
    said = {}
    order = sorted(words, key=len)
    for part in (order[i:i + 128] for i in range(0, len(order), 128)):
        ids, present = padded([source_ids(w) for w in part])
        memory, searches = network.encode(ids, present), [Beam(width) for _ in part]
        for _ in range(LONGEST - 1):
            rows = [(i, tokens) for i, s in enumerate(searches) if not s.done for _, tokens in s.live]
            if not rows:
                break
            own = torch.tensor([i for i, _ in rows])
            logp = network.decode(torch.tensor([tokens for _, tokens in rows]), memory[own], present[own])[:, -1].log_softmax(-1)
            for i, search in enumerate(searches):
                if not search.done:
                    search.step(logp[own == i])
        said.update((w, s.best()) for w, s in zip(part, searches))
    return [said[w] for w in words]


def distance(a, b):
    """Insertions, deletions and substitutions that make b of a."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def error_rates(said, words):
    """-> of phonemes, of words. Of a word's pronunciations the nearest counts, with its length."""
    wrong = total = words_wrong = 0
    for word, answer in zip(words, said):
        edits, phonemes = min((distance(answer, p), len(p)) for p in words[word])
        wrong, total, words_wrong = wrong + edits, total + phonemes, words_wrong + (edits > 0)
    return wrong / total, words_wrong / len(words)


class LetterByLetter:
    """The baseline: each letter says what it says most often, by itself or between its neighbours.
    Letters are aligned with none to two phonemes each, by Viterbi steps of expectation maximisation."""

    MOST = 2  # phonemes of a letter

    def __init__(self, words, sample=20000, steps=4):
        pairs = sorted((w, p) for w, said in words.items() for p in said if len(p) <= self.MOST * len(w))
        some = pairs[::max(1, len(pairs) // sample)]
        self.cost = collections.defaultdict(lambda: 5.0)
        for _ in range(steps):
            self.learn(some)
        self.count = collections.defaultdict(collections.Counter)
        for word, said in pairs:
            for at, chunk in enumerate(self.align(word, said)):
                for context in self.contexts(word, at):
                    self.count[context][chunk] += 1
        self.best = {context: chunks.most_common(1)[0][0] for context, chunks in self.count.items()}

    def learn(self, pairs):
        times = collections.Counter((c, chunk) for w, p in pairs for c, chunk in zip(w, self.align(w, p)))
        letters = collections.Counter()
        for (c, _), n in times.items():
            letters[c] += n
        self.cost = collections.defaultdict(lambda: 15.0, {(c, s): math.log(letters[c] / n) for (c, s), n in times.items()})

    def align(self, word, said):
        """-> for each letter, its phonemes"""
        best = {0: (0.0, ())}  # phonemes said so far -> (cost, chunks)
        for i, c in enumerate(word):
            step = {}
            for at, (cost, chunks) in best.items():
                for n in range(self.MOST + 1):
                    left = len(said) - at - n
                    if left < 0 or left > self.MOST * (len(word) - i - 1):
                        continue
                    chunk = said[at:at + n]
                    total = cost + self.cost[c, chunk] + 0.01 * abs((at + n) / len(said) - (i + 1) / len(word))
                    if at + n not in step or total < step[at + n][0]:
                        step[at + n] = (total, chunks + (chunk,))
            best = step
        return best[len(said)][1]

    @staticmethod
    def contexts(word, at, reach=2):
        """The letter alone, then with one more neighbour each: after it, before it, ..."""
        wide = " " * reach + word + " " * reach
        at += reach
        return [(a, wide[at - a:at + b + 1]) for a, b in [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)]]

    def say(self, word, wide=True):
        said = ()
        for at in range(len(word)):
            known = [c for c in self.contexts(word, at)[:None if wide else 1] if c in self.best]
            said += self.best[known[-1]] if known else ()
        return said


# ----------------------------------------------------------------------------------------------------------- training

def export(out, weights):
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
    (out / "tokenizer.json").write_text(json.dumps(tokenizer(), indent=1, ensure_ascii=False) + "\n")
    save_safetensors(out / "model.safetensors", weights)


def show(name, said, words):
    phonemes, whole = error_rates(said, words)
    print(f"{name}: {100 * phonemes:.2f} % of the phonemes wrong, {100 * whole:.2f} % of the words", flush=True)


def evaluate(out, train, held_out):
    """The weights as exported, and the baselines."""
    network = Network(load_safetensors(out / "model.safetensors"))
    show("held out, greedy", greedy(network, held_out), held_out)
    show("held out, beam 4", beam(network, held_out), held_out)
    letters = LetterByLetter(train)
    show("held out, letter by letter", [letters.say(w, wide=False) for w in held_out], held_out)
    show("held out, letters between their neighbours", [letters.say(w) for w in held_out], held_out)


def rate(progress, step):
    """Part of the full learning rate: up in 100 steps, level for a third of the time, then straight down to zero."""
    return min(1.0, (step + 1) / 100, (1 - progress) / 0.7)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "../shared/data")
    args.add_argument("--out", type=pathlib.Path, default=HERE)
    args.add_argument("--checkpoint", type=pathlib.Path, default=HERE.parents[1] / "build/train/g2p.pt")
    args.add_argument("--minutes", type=float, default=30, help="of processor time")
    args = args.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)

    words = read_words(args.data / "cmudict.train.dict")
    held_out, watched = ({w: said for w, said in words.items() if fold(w) in parts} for parts in (HELD_OUT, WATCHED))
    train = {w: said for w, said in words.items() if w not in held_out and w not in watched}
    examples = [(source_ids(w), target_ids(p)) for w, said in train.items() for p in said]
    print(f"{len(train)} words, {len(examples)} examples; {len(held_out)} words held out", flush=True)

    w = {name: t.requires_grad_() for name, t in fresh_weights().items()}
    print(f"{sum(t.numel() for t in w.values())} parameters")
    matrices = [n for n in w if ".layers." in n and w[n].dim() == 2]
    muon = Muon([w[n] for n in matrices])
    adam = torch.optim.AdamW([w[n] for n in w if n not in matrices], betas=(0.9, 0.98), weight_decay=0.0)
    state = {"step": 0, "seconds": 0.0}
    if args.checkpoint.exists():
        saved = torch.load(args.checkpoint)
        for name in w:
            w[name].data.copy_(saved["weights"][name])
        muon.momentum = saved["muon"]
        adam.load_state_dict(saved["adam"])
        torch.set_rng_state(saved["random"])
        state = saved["state"]
    network, limit = Network(w, torch.bfloat16), args.minutes * 60

    def keep():
        export(args.out, w)
        save_checkpoint(args.checkpoint, {"weights": w, "muon": muon.momentum, "adam": adam.state_dict(), "random": torch.get_rng_state(), "state": state})

    last, shown, losses = time.process_time(), state["seconds"], []
    for batch in batches(examples):
        if state["seconds"] >= limit:
            break
        part = rate(state["seconds"] / limit, state["step"])
        loss = network.loss(batch)
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
        if state["seconds"] - shown > 45:
            keep()
            print(f"{state['seconds'] / 60:5.1f} min  step {state['step']}  loss {sum(losses) / len(losses):.4f}", flush=True)
            show("  watched, greedy", greedy(Network(w), watched), watched)
            shown, losses, last = state["seconds"], [], time.process_time()
    keep()
    evaluate(args.out, train, held_out)


if __name__ == "__main__":
    main()
