"""The texts that the Shakespeare models learn from, the plays that they never see, and what counting makes of these."""
import collections
import math
import re
import zipfile

HELD_OUT_FROM = b"DUKE VINCENTIO:\nEscalus."  # Measure for Measure begins so; after it comes The Taming of the Shrew


def read_plays(data):
    """-> what is read, and the plays that are held out, as bytes."""
    text = (data / "tinyshakespeare.train.txt").read_bytes()
    cut = text.index(HELD_OUT_FROM)
    return text[:cut], text[cut:]


def read_prose(data):
    """-> other English, as bytes: reviews of films, and sentences from such. The data has them in lower case and with a space
    around each mark; here they are written as people write."""
    with zipfile.ZipFile(data / "movie_reviews.train.zip") as z:
        texts = [z.read(n).decode("latin-1") for n in sorted(z.namelist()) if n.endswith(".txt")]
    texts += [(data / f"sentence_polarity.{label}.txt").read_text(encoding="utf-8") for label in ("pos", "neg")]
    text = "\n".join(texts).encode("ascii", "ignore").decode().replace("`", "'")
    for pattern, written in ((r" ([.,;:!?)'])", r"\1"), (r"\( ", "("), (r' "([^"\n]*?) ?"', r' "\1"'), (r' " ', ' "'),
                             (r" +\n", "\n"), (r"\bi\b", "I")):
        text = re.sub(pattern, written, text)
    return re.sub(r"(^|[.!?] +|\n)[a-z]", lambda found: found[0].upper(), text).encode()


class Counts:
    """The baseline: counts of up to `order` bytes, interpolated after Witten and Bell."""

    def __init__(self, text, order=5):
        self.order, self.counts = order, collections.Counter(text[i:i + n] for n in range(1, order + 1) for i in range(len(text) - n + 1))
        self.times, self.kinds = collections.Counter(), collections.Counter()
        for gram, count in self.counts.items():
            self.times[gram[:-1]] += count
            self.kinds[gram[:-1]] += 1

    def nats(self, before, text):
        """Mean of a byte of `text` after the bytes `before`."""
        whole, total = before[-self.order:] + text, 0.0
        for at in range(len(whole) - len(text), len(whole)):
            p = 1 / 256
            for context in (whole[max(0, at - n):at] for n in range(min(at + 1, self.order))):
                if not self.times[context]:
                    break
                p = (self.counts[context + whole[at:at + 1]] + self.kinds[context] * p) / (self.times[context] + self.kinds[context])
            total -= math.log(p)
        return total / len(text)
