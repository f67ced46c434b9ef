"""Draws docs/variants-*.svg from what `heed_bench variants` printed: a panel for each family, beside full attention.

    ./dev bench variants | tee build/variants.txt; python3 tests/bench/plot.py docs < build/variants.txt
"""
import math
import pathlib
import sys

COLUMNS, WIDTH, HEIGHT, HEAD = 2, 460, 290, 34  # of a panel; HEAD above them all
LEFT, RIGHT, TOP, BOTTOM = 62, 132, 30, 40  # around a panel's plot
COLOURS = ("#4269d0", "#e8543f", "#3ca951", "#a463f2", "#d99a00")
GREY = "#777"  # of full attention


def seconds(text):
    number, unit = text.split()
    return float(number) * {"ms": 1e-3, "us": 1e-6, "s": 1.0}[unit]


def tables(lines):
    """The printed tables: rows as dictionaries by their headline's columns, which two spaces or more divide."""
    cells = [[cell.strip() for cell in line.strip().split("  ") if cell.strip()] for line in lines]
    found, head = [], None
    for row in cells:
        if row and row[0] == "variant":
            head = row
            found.append([])
        elif head and len(row) == len(head):
            found[-1].append(dict(zip(head, row)))
        else:
            head = None
    return found


def families(rows, x, y):
    """{family: {variant: [(x, seconds)]}}"""
    found = {}
    for row in rows:
        found.setdefault(row["family"], {}).setdefault(row["variant"], []).append((float(row[x]), seconds(row[y])))
    return found


def ticks(low, high):
    steps = (1,) if high / low > 1000 else (1, 2, 5)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0 ** power for power in powers for step in steps if low <= step * 10.0 ** power <= high]


def count(value):
    return f"{value:,.0f}" if value < 100000 else f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1000:.0f}k"


def duration(value):
    return f"{value:g} s" if value >= 1 else f"{value * 1e3:g} ms" if value >= 1e-3 else f"{value * 1e6:g} us"


class Axis:
    """Logarithmic."""

    def __init__(self, low, high, begin, end):
        self.low, self.high, self.begin, self.end = low, max(high, 2 * low), begin, end

    def __call__(self, value):
        return self.begin + (self.end - self.begin) * math.log(value / self.low) / math.log(self.high / self.low)


def apart(places, distance, low, high):
    """The places {name: y} moved no more than needed to be a distance from each other, within low and high."""
    names = sorted(places, key=places.get)
    moved, free = {}, low
    for name in names:
        moved[name] = max(places[name], free)
        free = moved[name] + distance
    free = high
    for name in reversed(names):
        moved[name] = min(moved[name], free)
        free = moved[name] - distance
    return moved


def panel(title, x_name, lines, x, y):
    out = [f'<text x="{LEFT}" y="20" font-size="13" font-weight="bold">{title}</text>']
    for tick in ticks(y.low, y.high):
        out.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{duration(tick)}</text>')
    places = sorted({p[0] for line in lines.values() for p in line})
    for i, tick in enumerate(places):
        out.append(f'<path d="M{x(tick):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eee"/>')
        if (len(places) - 1 - i) % (2 if len(places) > 5 else 1) == 0:
            out.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{count(tick)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{x_name}</text>')
    labels = apart({name: y(line[-1][1]) for name, line in lines.items()}, 13, TOP + 4, HEIGHT - BOTTOM)
    colours = dict(zip((name for name in lines if name != "full"), COLOURS), full=GREY)
    for name, line in lines.items():
        colour = colours[name]
        path = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in line)
        dashes = ' stroke-dasharray="5 4"' if name == "full" else ""
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        out += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.5" fill="{colour}"/>' for a, b in line]
        end, text = x(line[-1][0]), WIDTH - RIGHT + 14
        out.append(f'<path d="M{end + 4:.1f} {y(line[-1][1]):.1f}L{text - 3} {labels[name]:.1f}" stroke="{colour}" stroke-width="0.6"/>'
                   f'<text x="{text}" y="{labels[name] + 4:.1f}" fill="{colour}">{name}</text>')
    return out


def plot(path, title, x_name, found):
    points = [point for lines in found.values() for line in lines.values() for point in line]
    low, high = min(p[1] for p in points) / 1.3, max(p[1] for p in points) * 1.3
    x = Axis(min(p[0] for p in points), max(p[0] for p in points), LEFT, WIDTH - RIGHT)
    y = Axis(low, high, HEIGHT - BOTTOM, TOP)
    width, height = COLUMNS * WIDTH, HEAD + math.ceil(len(found) / COLUMNS) * HEIGHT
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>', f'<text x="{LEFT}" y="22" font-size="15">{title}</text>']
    for i, (family, lines) in enumerate(found.items()):
        out.append(f'<g transform="translate({i % COLUMNS * WIDTH} {HEAD + i // COLUMNS * HEIGHT})">')
        out += panel(family, x_name, lines, x, y) + ["</g>"]
    path.write_text("\n".join(out + ["</svg>"]) + "\n")


def main(folder):
    lengths, positions = tables(sys.stdin.read().splitlines())[:2]
    folder = pathlib.Path(folder)
    plot(folder / "variants-attention.svg", "Attention of one layer, width 512, 8 heads", "rows", families(lengths, "rows", "attention"))
    plot(folder / "variants-model.svg", "Whole model: 4 layers, width 512, 8 heads", "rows", families(lengths, "rows", "model"))
    plot(folder / "variants-decode.svg", "A token more: 4 layers, width 512, 8 heads", "position", families(positions, "position", "a token"))


if __name__ == "__main__":
    main(sys.argv[1])
