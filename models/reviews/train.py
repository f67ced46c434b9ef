"""Trains the classifiers of long documents: a film's whole review in, negative or positive out.

Fifteen hundred reviews are few, so most of what the network learns is handed down, as in ../polarity/train.py: a teacher
that counts, naive Bayes over the words, stems and pairs that a text has, gives its opinion of each review, of pieces of it,
and of each of the labelled sentences; the network starts from the teacher's opinion of single words and learns from the rest
and from the labels. The reviews of two of the data's ten folds are held out: neither teacher nor network nor
vocabulary sees them. Stop it at any moment and start it again: it goes on from the last pass over the text.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import collections
import itertools
import json
import pathlib
import random
import sys
import time

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from recipe import Average, load_checkpoint, save_checkpoint, save_safetensors
from words import bayes_accuracy, combine, evidence, pairs, read_reviews, read_sentences, stems, tokenizer

VOCABULARY = 15000
LONGEST = 16384
PASSES = 4  # over the reviews, their pieces and the labelled sentences
PIECES = 6  # of a review, each at least a fifth of it
HARD = 0.1  # part of the label in what a text teaches; the rest is the teacher's opinion
BATCH_WORDS, RATE, DECAY = 8192, 1e-3, 0.05
DROP, DROP_LEARNED = 0.2, 0.3  # of layers and words; of embeddings
BLOCK = 32  # texts of as many blocks go together
AVERAGE = 0.998

ATTENTION = {
    "sliding_window": [{"type": "sliding_window", "window": 8}, {"type": "sliding_window", "window": 128}],
    "bigbird": [{"type": "bigbird", "block_size": BLOCK, "num_blocks": LONGEST // BLOCK, "num_random_blocks": 3}] * 2,
}
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
    "max_position_embeddings": LONGEST,
    "head": "classification",
    "pooling": "mean",
    "num_labels": 2,
    "id2label": {"0": "negative", "1": "positive"},
}
HEADS = CONFIG["num_attention_heads"]

# ------------------------------------------------------------------------------------------------------------- counts

WORD_COLUMNS = [0, 1, 2, 3]  # of evidence(): words, stems
VIEWS = tuple(lambda s, f=f: sorted(set(f(s))) for f in (  # what a text has, however often
    lambda s: s, stems, pairs, lambda s: pairs(s, 2) + pairs(s, 3), lambda s: pairs(stems(s))))


def by_length(scores, texts):
    """A sum over the features of a long text says more than it knows."""
    return scores / torch.tensor([float(max(1, len(t))) for t in texts]).sqrt()[:, None]


# ---------------------------------------------------------------------------------------------------------- attention

def random_blocks():
    """[heads, blocks - 2, 3]: of block b, three that it would not see otherwise, so far as there are such. Every third of
    a block's is among the first of a text, for short ones."""
    drawn, blocks = random.Random(1), LONGEST // BLOCK
    def few(b):
        others = [c for c in range(1, blocks) if abs(c - b) > 1]
        near = [c for c in others if c < max(8, 2 * b)]
        return drawn.sample(near, 3)
    return torch.tensor([[few(b) for b in range(1, blocks - 1)] for _ in range(HEADS)])


def seen_in_window(n, layer, plan):
    at = torch.arange(n)
    return ((at[:, None] - at).abs() <= ATTENTION["sliding_window"][layer]["window"] // 2)[None]


def seen_by_bigbird(n, layer, plan):
    blocks = -(-n // BLOCK)
    at = torch.arange(blocks)
    edge = (at == 0) | (at == blocks - 1)
    seen = (((at[:, None] - at).abs() <= 1) | edge | edge[:, None]).repeat(HEADS, 1, 1)
    for h, b in itertools.product(range(HEADS), range(1, blocks - 1)):
        drawn = plan[layer][h, b - 1]
        seen[h, b, drawn[drawn < blocks]] = True
    return seen.repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)[:, :n, :n]


SEEN = {"sliding_window": seen_in_window, "bigbird": seen_by_bigbird}


# ---------------------------------------------------------------------------------------------------------- network

def still(linear):
    """So that a layer starts as the identity."""
    torch.nn.init.zeros_(linear.weight)
    torch.nn.init.zeros_(linear.bias)


class Attention(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(d, d) for _ in range(4))
        still(self.o)

    def forward(self, x, mask):
        q, k, v = (f(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))


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

    def forward(self, x, mask):
        x = x + F.dropout(self.attention(self.norm1(x), mask), DROP, self.training)
        return x + F.dropout(self.ffn(self.norm2(x)), DROP, self.training)


class Network(torch.nn.Module):
    """Its parts are named as the native format names tensors, but for `learned`, most of the embedding."""

    def __init__(self, word_odds, attention):
        """word_odds [6, words]: what a word alone is worth, by counts that leave a part of the reviews out. They are the
        first number of a word's embedding, and are not trained."""
        super().__init__()
        d, layers = CONFIG["hidden_size"], len(ATTENTION[attention])
        self.word_odds, self.attention, self.masks = word_odds, attention, {}
        self.plan = [random_blocks() for _ in range(layers)] if attention == "bigbird" else None
        self.learned = torch.nn.Embedding(VOCABULARY, d - 1)
        torch.nn.init.normal_(self.learned.weight, std=0.2)
        self.layers = torch.nn.ModuleList(Layer(d) for _ in range(layers))
        self.norm, self.classifier = torch.nn.LayerNorm(d), torch.nn.Linear(d, 2)
        torch.nn.init.zeros_(self.classifier.weight)
        self.classifier.weight.data[:, 0] = torch.tensor([-2.0, 2.0])

    def mask(self, n, layer, present):
        if (n, layer) not in self.masks:
            self.masks[n, layer] = SEEN[self.attention](n, layer, self.plan)
        itself = torch.eye(n, dtype=torch.bool)  # rows beyond a text's end
        return (self.masks[n, layer] & present[:, None, None]) | itself

    def forward(self, ids, present, part):
        """ids, present [batch, n], part [batch] -> log odds of positive [batch]. A review that the word odds were counted in
        would find them better than they are: `part` is its own, left out; 5 is for other text."""
        odds = self.word_odds[part[:, None], ids][..., None]
        x = torch.cat([odds, F.dropout(self.learned(ids), DROP_LEARNED, self.training)], -1)
        for i, layer in enumerate(self.layers):
            x = layer(x, self.mask(ids.shape[1], i, present))
        both = self.classifier((self.norm(x) * present[..., None]).sum(1) / present.sum(1, keepdim=True))
        return both[:, 1] - both[:, 0]


def padded(rows):
    """All of as many blocks; the last is filled up."""
    present = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.bool)
    for i, r in enumerate(rows):
        present[i, :len(r)] = True
    return torch.zeros(present.shape, dtype=torch.long).masked_scatter_(present, torch.tensor([t for r in rows for t in r])), present


def batches(rows):
    """Of row numbers, in random order, rows of as many blocks together."""
    groups = collections.defaultdict(list)
    for r in torch.randperm(len(rows)).tolist():
        groups[-(-len(rows[r]) // BLOCK)].append(r)
    found = []
    for blocks, group in groups.items():
        size = max(1, min(64, BATCH_WORDS // (blocks * BLOCK)))
        found += [group[i:i + size] for i in range(0, len(group), size)]
    return [found[i] for i in torch.randperm(len(found)).tolist()]


@torch.no_grad()
def opinion(network, rows):
    """Log odds of each row."""
    network.eval()
    odds = torch.zeros(len(rows))
    for batch in batches(rows):
        odds[batch] = network(*padded([rows[i] for i in batch]), torch.full((len(batch),), 5))
    network.train()
    return odds


def optimiser(network):
    """The embeddings, of which most words see few examples, at half the rate."""
    named = dict(network.named_parameters())
    embeddings = named.pop("learned.weight")
    groups = [([embeddings], DECAY, 0.5), ([p for p in named.values() if p.dim() > 1], DECAY, 1), ([p for p in named.values() if p.dim() == 1], 0, 1)]
    return torch.optim.AdamW([{"params": p, "weight_decay": decay, "times": times} for p, decay, times in groups], lr=RATE, betas=(0.9, 0.98))


def piece(text, drawn):
    size = int(len(text) * drawn.uniform(0.2, 1))
    at = drawn.randrange(len(text) - size + 1)
    return text[at:at + size]


def one_pass(network, adam, average, rows, parts, positive, done):
    """parts: see Network.forward; positive: its probability."""
    order = batches(rows)
    for step, batch in enumerate(order):
        at = done + step / len(order)
        for group in adam.param_groups:
            group["lr"] = RATE * group["times"] * min(1.0, at * 5 + 0.01, 1 - at / PASSES)
        ids, present = padded([rows[i] for i in batch])
        ids = ids.masked_fill(torch.rand(ids.shape) < DROP, 0)
        loss = F.binary_cross_entropy_with_logits(network(ids, present, parts[batch]), positive[batch])
        adam.zero_grad()
        loss.backward()
        adam.step()
        average.step()


# ----------------------------------------------------------------------------------------------------------- export

def export(out, network, vocabulary):
    out.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, "layers": [{"attention": a, "ffn": {"type": "dense"}} for a in ATTENTION[network.attention]]}
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (out / "tokenizer.json").write_text(json.dumps(tokenizer(vocabulary), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    tensors = {n: t for n, t in network.state_dict().items() if n != "learned.weight"}
    tensors["embed.tokens.weight"] = torch.cat([network.word_odds[5][:, None], network.learned.weight], 1)
    for i, plan in enumerate(network.plan or ()):
        tensors[f"layers.{i}.attention.random_blocks"] = plan
    save_safetensors(out / "model.safetensors", tensors)


# ------------------------------------------------------------------------------------------------------------- main

def show(who, odds, labels):
    right, loss = ((odds > 0) == labels).float().mean(), F.binary_cross_entropy_with_logits(odds, labels.float())
    print(f"held out: {who} {right:.4f}, {loss:.4f} nats", flush=True)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "../shared/data")
    args.add_argument("--out", type=pathlib.Path, help="default: beside this file, or with another attention in a folder of its own")
    args.add_argument("--checkpoint", type=pathlib.Path, default=HERE.parents[1] / "build/train/reviews.pt")
    args.add_argument("--attention", choices=ATTENTION, default="sliding_window")
    args.add_argument("--held-out", default="89", help="the folds, of 0 to 9, that are held out")
    args = args.parse_args()
    if args.attention != "sliding_window":
        args.checkpoint = args.checkpoint.with_stem(f"{args.checkpoint.stem}-{args.attention}")
    args.out = args.out or (HERE if args.attention == "sliding_window" else HERE.with_name(f"reviews-{args.attention}"))
    torch.set_num_threads(1)
    began = time.process_time()

    every = [(fold, [w for s in review for w in s], label) for fold, review, label in read_reviews(args.data)]
    train, test = ([(s, y) for fold, s, y in every if (str(fold) in args.held_out) == side] for side in (False, True))
    sentences = read_sentences(args.data)
    print(f"{len(train)} reviews and {len(sentences)} sentences to learn from, {len(test)} reviews held out")
    print(f"held out: one label always {max(sum(y == l for _, y in test) for l in (0, 1)) / len(test):.4f}, "
          f"naive Bayes {bayes_accuracy(train, test):.4f}", flush=True)

    texts, labels = [s for s, _ in train], torch.tensor([float(y) for _, y in train])
    short, short_labels = [s for s, _ in sentences], torch.tensor([float(y) for _, y in sentences])
    test_labels = torch.tensor([bool(y) for _, y in test])
    counts = collections.Counter(w for s in texts for w in set(s)) + collections.Counter(w for s in short for w in set(s))
    vocabulary = {w: i for i, w in enumerate(["[UNK]"] + [w for w, _ in counts.most_common(VOCABULARY - 1)])}

    n, m = len(texts), len(short)
    words_from, test_from = n + m, n + m + VOCABULARY
    drawn = random.Random(1)
    pieces = [piece(s, drawn) for s in texts for _ in range(PIECES)]
    others = [[w] for w in vocabulary] + [s for s, _ in test] + pieces
    pieces_from, parts = test_from + len(test), torch.arange(n) % 5
    parts_of_pieces = parts.repeat_interleave(PIECES)
    scores = by_length(evidence(VIEWS, texts, labels, parts, short, short_labels, others), texts + short + others)
    own = scores[parts, torch.arange(n)]
    weights, bias = combine(own, labels)
    of_pieces = scores[parts_of_pieces, torch.arange(pieces_from, pieces_from + len(pieces))]
    teacher = torch.cat([own, scores[5, n:words_from], of_pieces]) @ weights + bias
    show("all that is counted", scores[5, test_from:pieces_from] @ weights + bias, test_labels)
    weights, bias = combine(own[:, WORD_COLUMNS], labels)
    show("words and stems counted", scores[5, test_from:pieces_from, WORD_COLUMNS] @ weights + bias, test_labels)
    word_odds = scores[:, words_from:test_from, WORD_COLUMNS] @ weights
    word_odds[:, 0] = 0

    def numbered(texts):
        return [[vocabulary.get(w, 0) for w in s] for s in texts]
    test_rows, rows = numbered(s for s, _ in test), numbered(texts) + numbered(short) + numbered(pieces)
    read = torch.tensor([i for row in rows[:n] for i in row])
    word_odds -= word_odds[:, read].mean(1, keepdim=True)  # the mean of a text's words says nothing by itself
    parts = torch.cat([parts, torch.full((m,), 5), parts_of_pieces])
    positive = HARD * torch.cat([labels, short_labels, labels.repeat_interleave(PIECES)]) + (1 - HARD) * teacher.sigmoid()

    torch.manual_seed(1)
    network, done = Network(word_odds, args.attention), 0
    adam, average = optimiser(network), Average(dict(network.named_parameters()), AVERAGE)
    if args.checkpoint.exists():
        saved = load_checkpoint(args.checkpoint)
        network.load_state_dict(saved["network"])
        adam.load_state_dict(saved["adam"])
        average.weights, average.steps, done = saved["average"], saved["steps"], saved["done"]
        torch.set_rng_state(saved["random"])
    show("network before training", opinion(network, test_rows), test_labels)
    while done < PASSES:
        one_pass(network, adam, average, rows, parts, positive, done)
        done += 1
        save_checkpoint(args.checkpoint, {"network": network.state_dict(), "adam": adam.state_dict(), "average": average.weights,
                                          "steps": average.steps, "done": done, "random": torch.get_rng_state()})
        show(f"network after pass {done}, {(time.process_time() - began) / 60:.1f} min,", opinion(network, test_rows), test_labels)
    network.load_state_dict(average.weights)
    export(args.out, network, vocabulary)
    show("the averaged network", opinion(network, test_rows), test_labels)


if __name__ == "__main__":
    main()
