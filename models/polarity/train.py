"""Trains the polarity classifier: the words of a sentence about a film in, negative or positive out.

Nine thousand labelled sentences are few, so most of what the network learns is handed down. A teacher that counts, naive
Bayes over words, word pairs and stems in the sentences and in whole reviews, gives its opinion of the reviews' 58 thousand
sentences; the network starts from the teacher's opinion of single words and learns from the rest and from the labels.
A tenth of the sentences, chosen by hash, is held out: neither teacher nor network nor vocabulary sees it.
Stop it at any moment and start it again: it goes on from the last pass over the text.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import collections
import hashlib
import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from recipe import Average, load_checkpoint, save_checkpoint, save_safetensors
from words import bayes_accuracy, combine, evidence, pairs, read_reviews, read_sentences, stems, tokenizer

FOLDS = 10
VOCABULARY = 15000
LONGEST = 64  # words of a training sentence; only reviews have longer ones
PASSES = 4  # over all the text, the labelled sentences twice in each
AVERAGE = 0.998  # of the weights, over the last steps: what is exported
HARD = 0.3  # part of the label in what a labelled sentence teaches; the rest is the teacher's opinion
BATCH, RATE, DECAY = 128, 1e-3, 0.05
DROP, DROP_LEARNED = 0.15, 0.3  # of layers and words; of embeddings

CONFIG = {
    "model_type": "heed",
    "architecture": "encoder",
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "hidden_act": "gelu",
    "norm": "pre",
    "norm_type": "layer",
    "layer_norm_eps": 1e-5,
    "positions": "none",
    "max_position_embeddings": 256,
    "layers": [{"attention": {"type": "softmax", "rope": {"theta": 10000}}, "ffn": {"type": "dense"}}] * 2,
    "head": "classification",
    "pooling": "mean",
    "num_labels": 2,
    "id2label": {"0": "negative", "1": "positive"},
}


# ------------------------------------------------------------------------------------------------------------- counts

WORD_COLUMNS = [0, 1, 2, 3]  # of evidence(): words, stems
VIEWS = (lambda s: s, stems, pairs, lambda s: pairs(s, 2) + pairs(s, 3), lambda s: pairs(stems(s)))


def fold(sentence):
    return int(hashlib.sha256(" ".join(sentence).encode()).hexdigest(), 16) % FOLDS


# ---------------------------------------------------------------------------------------------------------- network

def rotate(x, theta=10000.0):
    """Rotary positions, x [batch, heads, n, head width]; pair t is (x[t], x[t + half])."""
    n, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.arange(n)[:, None] * theta ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def still(linear):
    """So that a layer starts as the identity."""
    torch.nn.init.zeros_(linear.weight)
    torch.nn.init.zeros_(linear.bias)


class Attention(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(d, d) for _ in range(4))
        still(self.o)

    def forward(self, x, absent):
        q, k, v = (f(x).unflatten(-1, (CONFIG["num_attention_heads"], -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = rotate(q) @ rotate(k).transpose(-1, -2) * q.shape[-1] ** -0.5
        return self.o((scores + absent).softmax(-1).matmul(v).transpose(1, 2).flatten(2))


class FeedForward(torch.nn.Module):
    def __init__(self, d, inner):
        super().__init__()
        self.up, self.down = torch.nn.Linear(d, inner), torch.nn.Linear(inner, d)
        still(self.down)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Layer(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(d), torch.nn.LayerNorm(d)
        self.attention, self.ffn = Attention(d), FeedForward(d, CONFIG["intermediate_size"])

    def forward(self, x, absent):
        x = x + F.dropout(self.attention(self.norm1(x), absent), DROP, self.training)
        return x + F.dropout(self.ffn(self.norm2(x)), DROP, self.training)


class Network(torch.nn.Module):
    """Its parts are named as the native format names tensors, but for `learned`, most of the embedding, and `review`, a
    head that guesses the label of the review that a sentence is from: a second task, not exported."""

    def __init__(self, word_odds):
        """word_odds [6, words]: log odds that a word alone lends a text, by counts that leave a part of the sentences out.
        They are the first number of a word's embedding, and are not trained."""
        super().__init__()
        d = CONFIG["hidden_size"]
        self.word_odds = word_odds
        self.learned = torch.nn.Embedding(VOCABULARY, d - 1)
        torch.nn.init.normal_(self.learned.weight, std=0.2)
        self.layers = torch.nn.ModuleList(Layer(d) for _ in CONFIG["layers"])
        self.norm, self.classifier, self.review = torch.nn.LayerNorm(d), torch.nn.Linear(d, 2), torch.nn.Linear(d, 1)
        torch.nn.init.zeros_(self.classifier.weight)
        self.classifier.weight.data[:, 0] = torch.tensor([-2.0, 2.0])  # at first, about the sum of the odds

    def forward(self, ids, present, part):
        """ids, present [batch, n], part [batch] -> log odds of positive, of a positive review [batch]. A sentence that the
        word odds were counted in would find them better than they are: `part` is its own, left out; 5 is for other text."""
        odds = self.word_odds[part[:, None], ids][..., None]
        x = torch.cat([odds, F.dropout(self.learned(ids), DROP_LEARNED, self.training)], -1)
        absent = torch.zeros(present.shape).masked_fill(~present, -1e9)[:, None, None]
        for layer in self.layers:
            x = layer(x, absent)
        x = (self.norm(x) * present[..., None]).sum(1) / present.sum(1, keepdim=True)
        both = self.classifier(x)
        return both[:, 1] - both[:, 0], self.review(x)[:, 0]


def padded(rows):
    present = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.bool)
    for i, r in enumerate(rows):
        present[i, :len(r)] = True
    return torch.zeros(present.shape, dtype=torch.long).masked_scatter_(present, torch.tensor([t for r in rows for t in r])), present


def batches(rows, size=BATCH):
    """Of row numbers, in random order, rows of similar length together."""
    order = torch.randperm(len(rows)).tolist()
    parts = [sorted(order[i:i + 50 * size], key=lambda r: len(rows[r])) for i in range(0, len(order), 50 * size)]
    found = [part[i:i + size] for part in parts for i in range(0, len(part), size)]
    return [found[i] for i in torch.randperm(len(found)).tolist()]


@torch.no_grad()
def opinion(network, rows):
    """Log odds of each row."""
    network.eval()
    odds = torch.zeros(len(rows))
    for batch in batches(rows):
        odds[batch] = network(*padded([rows[i] for i in batch]), torch.full((len(batch),), 5))[0]
    network.train()
    return odds


def optimiser(network):
    """The embeddings, of which most words see few examples, at half the rate."""
    named = dict(network.named_parameters())
    embeddings = named.pop("learned.weight")
    groups = [([embeddings], DECAY, 0.5), ([p for p in named.values() if p.dim() > 1], DECAY, 1), ([p for p in named.values() if p.dim() == 1], 0, 1)]
    return torch.optim.AdamW([{"params": p, "weight_decay": decay, "times": times} for p, decay, times in groups], lr=RATE, betas=(0.9, 0.98))


def one_pass(network, adam, average, rows, parts, positive, review, done):
    """parts: see Network.forward; positive: its probability; review: the review's label, or -1 where there is no review."""
    order = batches(rows)
    for step, batch in enumerate(order):
        at = done + step / len(order)
        for group in adam.param_groups:
            group["lr"] = RATE * group["times"] * min(1.0, at * 10 + 0.01, 1 - at / PASSES)
        ids, present = padded([rows[i] for i in batch])
        ids = ids.masked_fill(torch.rand(ids.shape) < DROP, 0)
        odds, guess = network(ids, present, parts[batch])
        loss = F.binary_cross_entropy_with_logits(odds, positive[batch])
        known = review[batch] >= 0
        loss = loss + 0.3 * (F.binary_cross_entropy_with_logits(guess, review[batch].clamp(min=0), reduction="none") * known).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        average.step()


# ----------------------------------------------------------------------------------------------------------- export

def export(out, network, vocabulary):
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
    (out / "tokenizer.json").write_text(json.dumps(tokenizer(vocabulary), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    tensors = {n: t for n, t in network.state_dict().items() if n.split(".")[0] not in ("learned", "review")}
    tensors["embed.tokens.weight"] = torch.cat([network.word_odds[5][:, None], network.learned.weight], 1)
    save_safetensors(out / "model.safetensors", tensors)


# ------------------------------------------------------------------------------------------------------------- main

def show(who, odds, labels):
    right, loss = ((odds > 0) == labels).float().mean(), F.binary_cross_entropy_with_logits(odds, labels.float())
    print(f"held out: {who} {right:.4f}, {loss:.4f} nats", flush=True)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "../shared/data")
    args.add_argument("--out", type=pathlib.Path, default=HERE)
    args.add_argument("--checkpoint", type=pathlib.Path, default=HERE.parents[1] / "build/train/polarity.pt")
    args.add_argument("--held-out", type=int, default=0, help="the fold, 0 to 9, that is held out")
    args = args.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()

    every = read_sentences(args.data)
    train, test = ([e for e in every if (fold(e[0]) == args.held_out) == side] for side in (False, True))
    kept_away = {" ".join(s) for s, _ in test}
    reviews = [(s, label) for _, review, label in read_reviews(args.data) for s in review if " ".join(s) not in kept_away]
    print(f"{len(train)} sentences to learn from, {len(test)} held out, {len(reviews)} of reviews")
    print(f"held out: naive Bayes {bayes_accuracy(train, test):.4f}", flush=True)

    sentences, labels = [s for s, _ in train], torch.tensor([float(y) for _, y in train])
    from_reviews, review_labels = [s for s, _ in reviews], torch.tensor([float(y) for _, y in reviews])
    test_labels = torch.tensor([bool(y) for _, y in test])
    counts = collections.Counter(w for s in sentences for w in s * 4) + collections.Counter(w for s in from_reviews for w in s)
    vocabulary = {w: i for i, w in enumerate(["[UNK]"] + [w for w, _ in counts.most_common(VOCABULARY - 1)])}

    n, m = len(sentences), len(reviews)
    parts = torch.tensor([fold(["another", "split"] + s) % 5 for s in sentences])
    scores = 0.1 * evidence(VIEWS, sentences, labels, parts, from_reviews, review_labels, [[w] for w in vocabulary] + [s for s, _ in test])
    own = scores[parts, torch.arange(n)]
    weights, bias = combine(own, labels)
    teacher = torch.cat([own, scores[5, n:]]) @ weights + bias
    show("all that is counted", teacher[n + m + VOCABULARY:], test_labels)
    weights, bias = combine(own[:, WORD_COLUMNS], labels)
    show("words and stems counted", scores[5, n + m + VOCABULARY:, WORD_COLUMNS] @ weights + bias, test_labels)
    word_odds = scores[:, n + m:n + m + VOCABULARY, WORD_COLUMNS] @ weights
    word_odds[:, 0] = 0

    def numbered(texts):
        return [[vocabulary.get(w, 0) for w in s[:LONGEST]] for s in texts]
    test_rows, rows = numbered(s for s, _ in test), numbered(sentences) * 2 + numbered(from_reviews)
    parts = torch.cat([parts, parts, torch.full((m,), 5)])
    positive = torch.cat([(HARD * labels + (1 - HARD) * teacher[:n].sigmoid()).repeat(2), teacher[n:n + m].sigmoid()])
    review = torch.cat([torch.full((2 * n,), -1.0), review_labels])

    torch.manual_seed(1)
    network, done = Network(word_odds), 0
    adam, average = optimiser(network), Average(dict(network.named_parameters()), AVERAGE)
    if args.checkpoint.exists():
        saved = load_checkpoint(args.checkpoint)
        network.load_state_dict(saved["network"])
        adam.load_state_dict(saved["adam"])
        average.weights, average.steps, done = saved["average"], saved["steps"], saved["done"]
        torch.set_rng_state(saved["random"])
    show("network before training", opinion(network, test_rows), test_labels)
    while done < PASSES:
        one_pass(network, adam, average, rows, parts, positive, review, done)
        done += 1
        save_checkpoint(args.checkpoint, {"network": network.state_dict(), "adam": adam.state_dict(), "average": average.weights,
                                          "steps": average.steps, "done": done, "random": torch.get_rng_state()})
        show(f"network after pass {done}, {(time.process_time() - began) / 60:.1f} min,", opinion(network, test_rows), test_labels)
    network.load_state_dict(average.weights)
    export(args.out, network, vocabulary)
    show("the averaged network", opinion(network, test_rows), test_labels)


if __name__ == "__main__":
    main()
