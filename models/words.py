"""What the recipes of the classifiers share: words, the labelled films, and naive Bayes, which is the baseline and the teacher."""
import collections
import itertools
import math
import unicodedata
import zipfile

import torch
import torch.nn.functional as F


def kind(c):
    """Of a character, as the Whitespace pre-tokenizer's \\w+|[^\\w\\s]+ sees it."""
    if c.isspace() and c not in "\x1c\x1d\x1e\x1f":
        return "space"
    category = unicodedata.category(c)
    return "word" if category[0] in "LM" or category in ("Nd", "Nl", "Pc") or c in "\u200c\u200d" else "mark"


def words(text):
    """What tokenizer.json does before it looks words up."""
    text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c)[0] != "M")
    text = "".join(c.lower() for c in text)
    return ["".join(run) for k, run in itertools.groupby(text, kind) if k != "space"]


def tokenizer(vocabulary):
    normalizers = [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    unknown = {"id": 0, "content": "[UNK]", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [unknown],
            "normalizer": {"type": "Sequence", "normalizers": normalizers}, "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}}


def read_sentences(data):
    """-> [(words, label)]; equal sentences have equal words, so they cannot lie on both sides of a split by fold()."""
    files = (("neg", 0), ("pos", 1))
    return [(words(line), label) for name, label in files
            for line in (data / f"sentence_polarity.{name}.txt").read_text(encoding="utf-8").split("\n") if line]


def read_reviews(data):
    """-> [(fold, the words of each sentence, label)], one a review; the fold, 0 to 9, is the hundred of the file's number."""
    with zipfile.ZipFile(data / "movie_reviews.train.zip") as z:
        names = [n for n in sorted(z.namelist()) if n.endswith(".txt")]
        return [(int(n.split("/cv")[1][0]), [w for w in map(words, z.read(n).decode("latin-1").split("\n")) if w], int(n.startswith("pos/")))
                for n in names]


def bayes_accuracy(train, test):
    """The baseline: multinomial naive Bayes over words, add-one."""
    counts = [collections.Counter(w for s, y in train if y == label for w in s) for label in (0, 1)]
    known = set(counts[0]) | set(counts[1])
    total = [sum(c.values()) + len(known) for c in counts]
    ratio = {w: math.log((counts[1][w] + 1) / total[1]) - math.log((counts[0][w] + 1) / total[0]) for w in known}
    prior = math.log(sum(y for _, y in train) / sum(1 - y for _, y in train))
    return sum((prior + sum(ratio.get(w, 0.0) for w in s) > 0) == y for s, y in test) / len(test)


def stems(s):
    return [w[:5] for w in s]


def pairs(s, apart=1):
    return [f"{a} {apart} {b}" for a, b in zip(s, s[apart:])]


class View:
    """One kind of feature of every text; its naive Bayes scores from any choice of labelled texts."""

    def __init__(self, features, texts, counted):
        found = [features(t) for t in texts]
        counts = collections.Counter(itertools.chain.from_iterable(found[:counted]))
        index = {f: i for i, f in enumerate(f for f, c in counts.items() if c > 1)}
        rows = [[index[f] for f in t if f in index] for t in found]
        lengths = torch.tensor([len(r) for r in rows])
        self.ids = torch.tensor(list(itertools.chain.from_iterable(rows)))
        self.row, self.starts, self.size = torch.repeat_interleave(lengths), lengths.cumsum(0) - lengths, len(index)

    def scores(self, positive, negative):
        """Of every text, having counted text i positive[i] times as a positive one, negative[i] times as a negative one."""
        counts = [torch.full((self.size,), 0.5).index_add_(0, self.ids, times[self.row]) for times in (positive, negative)]
        ratio = counts[0].log() - counts[0].sum().log() - counts[1].log() + counts[1].sum().log()
        return F.embedding_bag(self.ids, ratio[:, None], self.starts, mode="sum")[:, 0]


def evidence(views, own, labels, parts, elsewhere, elsewhere_labels, others):
    """-> [6, texts, columns], naive Bayes scores of the texts `own`, those labelled `elsewhere`, and the others. The first
    index is the part, 0 to 4, of `own` that was left out of the counts; 5: none. Columns: for each view a score counted in
    `own`, and one counted elsewhere."""
    n, m, texts = len(own), len(elsewhere), own + elsewhere + others
    columns = []
    for features in views:
        view = View(features, texts, n + m)

        def scores(where, y):
            counted = [torch.zeros(len(texts)) for _ in "+-"]
            counted[0][where], counted[1][where] = y, 1 - y
            return view.scores(*counted)
        columns.append(torch.stack([scores(torch.nonzero(parts != k)[:, 0], labels[parts != k]) for k in range(6)]))
        columns.append(scores(torch.arange(n, n + m), elsewhere_labels).expand(6, -1))
    return torch.stack(columns, -1)


def combine(own, labels):
    """Logistic regression: weights and bias of the columns of `own`."""
    weights, bias = torch.zeros(own.shape[1], requires_grad=True), torch.zeros(1, requires_grad=True)
    fit = torch.optim.LBFGS([weights, bias], max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        fit.zero_grad()
        loss = F.binary_cross_entropy_with_logits(own @ weights + bias, labels)
        loss.backward()
        return loss
    fit.step(closure)
    return weights.detach(), bias.detach()
