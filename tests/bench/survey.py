"""Makes docs/survey.md and docs/survey-*.svg of what `heed_bench survey experts` printed.

    ./dev bench survey   # runs both
"""
import datetime
import math
import pathlib
import sys

HEAD = ("kind of input", "model")
CLASSES = ("FP: fixed patterns, LP: learnable patterns, M: memory, LR: low rank, KR: kernels, RC: recurrence, DS: downsampling")
WIDTH, LABEL, COLUMN, LINE, TOP = 980, 170, 250, 19, 64  # of the pictures, in pixels
GAP = 20  # between a picture's columns
BAR, WRITER, TEXT = "#4269d0", "#3ca951", "#333"


def cells(line):
    return [cell.strip() for cell in line.strip().split("  ") if cell.strip()]


class Modality:
    """One kind of input: its headline and its rows as dictionaries."""

    def __init__(self, headline, columns):
        self.name, rest = headline.split(": ", 1)
        self.shape, self.figures = rest.rsplit("; figures at ", 1)
        self.columns, self.rows = columns, []

    @property
    def writes(self):
        return any(row["writes"] != "no" for row in self.rows)


def read_experts(lines):
    """What the section "experts" printed: its headline and its rows, the columns' names first."""
    begin = lines.index("== experts ==") + 1
    rows = [cells(line) for line in lines[begin + 1:] if cells(line)]
    return lines[begin], [row for row in rows if len(row) == len(rows[0])]


def read(lines):
    """-> (machine, [Modality])"""
    machine = lines[0].split(", rows by")[0]
    modalities, before = [], ""
    for line in lines:
        row = cells(line)
        if tuple(row[:2]) == HEAD:
            modalities.append(Modality(before, row))
        elif modalities and len(row) == len(modalities[-1].columns):
            modalities[-1].rows.append(dict(zip(modalities[-1].columns, row)))
        before = line.strip()
    return machine, modalities


def number(text):
    return float(text.split()[0])


def three(value):
    """Three digits, as 2.38, 23.8, 238 or 2,380."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


# ----------------------------------------------------------------------------------------------------- pictures

def bars(rows, of, unit, x, colour_of):
    """A column of bars on a logarithmic scale, which begins a factor below the least."""
    values = [of(row) for row in rows]
    known = [value for value in values if value is not None]
    low, high = min(known) / 1.6, max(known)
    out = []
    for i, (row, value) in enumerate(zip(rows, values)):
        y = TOP + i * LINE
        if value is None:
            out.append(f'<text x="{x}" y="{y + 13}" fill="#aaa">-</text>')
            continue
        length = max(2.0, (COLUMN - GAP - 60) * math.log(value / low) / math.log(high / low))
        out.append(f'<rect x="{x}" y="{y + 3}" width="{length:.1f}" height="{LINE - 6}" fill="{colour_of(row)}"/>'
                   f'<text x="{x + length + 4:.1f}" y="{y + 13}">{three(value)} {unit}</text>')
    return out


def picture(modality):
    rows = sorted(modality.rows, key=lambda row: number(row["time"]))

    def colour(row):
        return WRITER if row["writes"] != "no" else BAR
    columns = [("an input, read", lambda row: number(row["time"]), "ms"),
               ("memory above weights", lambda row: max(1.0, number(row["MiB above weights"])), "MiB")]
    if modality.writes:
        columns.append(("a token more at the end", lambda row: None if row["a token"] == "-" else number(row["a token"]), "ms"))
    height = TOP + len(rows) * LINE + 10
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11" fill="{TEXT}">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="10" y="20" font-size="15">{modality.name}, {modality.figures.split(",")[0]}</text>']
    out += [f'<text x="{LABEL - 8}" y="{TOP + i * LINE + 13}" text-anchor="end">{row["model"]}</text>' for i, row in enumerate(rows)]
    for i, (title, of, unit) in enumerate(columns):
        x = LABEL + i * (COLUMN + GAP)
        out.append(f'<text x="{x}" y="{TOP - 14}" font-weight="bold">{title} (logarithmic)</text>')
        out += bars(rows, of, unit, x, colour)
    return "\n".join(out + ["</svg>"]) + "\n"


# --------------------------------------------------------------------------------------------------------- page

def table(head, rows):
    return ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]


def figures(modality):
    """The rows, the fastest first, with those columns that say something here."""
    head = ["model", "paper", "class", "claimed", "ms", "x first", "MiB", "grows with n^", "multiply-adds with n^", "of the limit"]
    head += ["writes", "a token, ms", "x near", "state KiB"] if modality.writes else []
    rows = []
    for row in sorted(modality.rows, key=lambda row: number(row["time"])):
        line = [f"`{row['model']}`", row["paper"], row["classes"], f"O({row['claimed']})", three(number(row["time"])),
                row["x first"].replace(" x", ""), row["MiB above weights"], row["exponent"], row["of multiply-adds"], row["of limit"]]
        if modality.writes:
            known = row["a token"] != "-"
            line += [row["writes"], three(number(row["a token"])) if known else "-",
                     f"{number(row['a token']) / number(row['near']):.2f}" if known else "-", row["state KiB"]]
        rows.append(line)
    return table(head, rows)


def best(rows, of, others=3):
    return ", ".join(f"`{row['model']}` ({text})" for value, text, row in sorted((of(row) + (row,) for row in rows), key=lambda found: found[0])[:others])


def jobs(modalities):
    """Which model for which job, by the figures of this run."""
    rows = []
    for modality in modalities:
        def time(row):
            return number(row["time"]), f"{three(number(row['time']))} ms, {row['x first']} `{modality.rows[0]['model']}`"

        def memory(row):
            return number(row["MiB above weights"]), f"{row['MiB above weights']} MiB"
        at = modality.figures.split(",")[0]
        rows.append([f"{modality.name}: read {at}", best(modality.rows, time)])
        rows.append([f"{modality.name}: in little memory", best(modality.rows, memory)])
        if modality.writes:
            rows.append([f"{modality.name}: a token more after {at}",
                         best(modality.rows, lambda row: (number(row["a token"]), f"{three(number(row['a token']))} ms"))])
            rows.append([f"{modality.name}: many sequences at once",
                         best(modality.rows, lambda row: (number(row["state KiB"]), f"{row['state KiB']} KiB each"))])
    return table(["job", "the best three"], rows)


def page(machine, modalities, experts, day):
    out = ["# The survey, running", "",
           "Every attention and stack of \"Efficient Transformers: A Survey\" (Tay et al. 2022) in Heed, at one shape for each kind of",
           f"input, with random weights in bf16. Measured {day} on {machine}, by", "",
           "    ./dev bench survey", "",
           "which writes this page. Speed is what a shape costs, not how well a model of it learns: weigh it against the papers' accuracies,",
           "and against the cards of the models in `models/`. A first choice:", "",
           *jobs(modalities), "",
           "In the tables: `class` is the survey's taxonomy (" + CLASSES + "); `claimed` what its table 1 or the paper says; `ms` the least time",
           "of a pass over one input; `MiB` what memory grew by; the exponents are fitted over the lengths; `of the limit` is the share of what the",
           "hot micro-kernel gave in the same seconds; a model `writes` exactly if decoding token by token gives the same rows as reading; `x near`",
           "compares a token there with one at 1,000.", ""]
    for modality in modalities:
        out += [f"## {modality.name}", "", f"{modality.shape[0].upper()}{modality.shape[1:]}. Figures at {modality.figures}.", "",
                f"![{modality.name}](survey-{modality.name.replace(' ', '-')}.svg)", "", *figures(modality), ""]
    headline, rows = experts
    out += ["## conditional computation", "",
            "A Switch Transformer (Fedus et al. 2021), an encoder-decoder of Switch-Base's widths and half its depth, beside its dense twin",
            f"({headline}). A row meets one expert, so both multiply as much; a batch reads the weights of the experts that its rows meet,",
            "and those nobody meets cost nothing.", "", *table(rows[0], rows[1:]), ""]
    return "\n".join(out)


def main(folder):
    lines = sys.stdin.read().splitlines()
    machine, modalities = read(lines)
    folder = pathlib.Path(folder)
    for modality in modalities:
        (folder / f"survey-{modality.name.replace(' ', '-')}.svg").write_text(picture(modality))
    (folder / "survey.md").write_text(page(machine, modalities, read_experts(lines), datetime.date.today().isoformat()))


if __name__ == "__main__":
    main(sys.argv[1])
