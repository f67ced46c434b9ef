"""Draws docs/variants-*.svg from what `heed_bench variants` printed.

    ./dev bench variants | tee build/variants.txt; python3 tests/bench/plot.py docs < build/variants.txt
"""
import math
import pathlib
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 440, 70, 150, 40, 50
COLOURS = ("#4269d0", "#ff725c", "#3ca951", "#a463f2", "#efb118", "#6cc5b0", "#97bbf5")


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


def ticks(low, high):
    steps = (1,) if high / low > 1000 else (1, 2, 5)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0 ** e for e in exponents for step in steps if low <= step * 10.0 ** e <= high]


def label(value, unit):
    if unit == "s":
        return f"{value:g} s" if value >= 1 else f"{value * 1e3:g} ms" if value >= 1e-3 else f"{value * 1e6:g} us"
    return f"{value:,.0f}"


def plot(path, title, x_name, series):
    """series: {name: [(x, seconds)]}, both axes logarithmic."""
    points = [p for line in series.values() for p in line]
    low_x, high_x = min(p[0] for p in points), max(p[0] for p in points)
    low_y, high_y = min(p[1] for p in points) / 1.3, max(p[1] for p in points) * 1.3

    def place(value, low, high, begin, end):
        return begin + (end - begin) * math.log(value / low) / math.log(high / low)

    def x(value):
        return place(value, low_x, high_x, LEFT, WIDTH - RIGHT)

    def y(value):
        return place(value, low_y, high_y, HEIGHT - BOTTOM, TOP)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="22" font-size="15">{title}</text>']
    for tick in ticks(low_y, high_y):
        out.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{label(tick, "s")}</text>')
    for tick in sorted({p[0] for p in points}):
        out.append(f'<path d="M{x(tick):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eee"/>'
                   f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{label(tick, "")}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{x_name}</text>')
    ends = sorted((y(line[-1][1]), line[-1][0], name) for name, line in series.items())
    label_y, free_y = {}, {}  # where lines end at one x: labels below one another, not on top of one another
    for wanted, end, name in ends:
        label_y[name] = max(wanted, free_y.get(end, wanted))
        free_y[end] = label_y[name] + 14
    for (name, line), colour in zip(series.items(), COLOURS):
        path_data = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in line)
        out.append(f'<path d="M{path_data}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" fill="{colour}"/>' for a, b in line]
        out.append(f'<text x="{x(line[-1][0]) + 10:.1f}" y="{label_y[name] + 4:.1f}" fill="{colour}">{name}</text>')
    path.write_text("\n".join(out + ["</svg>"]) + "\n")


def series(rows, x, y):
    lines = {}
    for row in rows:
        lines.setdefault(row["variant"], []).append((float(row[x]), seconds(row[y])))
    return lines


def main(folder):
    lengths, positions = tables(sys.stdin.read().splitlines())[:2]
    folder = pathlib.Path(folder)
    plot(folder / "variants-attention.svg", "Attention of one layer, causal, width 512, 8 heads", "rows",
         series(lengths, "rows", "attention"))
    plot(folder / "variants-model.svg", "Whole model, causal: 4 layers, width 512, 8 heads", "rows", series(lengths, "rows", "model"))
    plot(folder / "variants-decode.svg", "A token more: 4 layers, width 512, 8 heads", "position", series(positions, "position", "a token"))


if __name__ == "__main__":
    main(sys.argv[1])
