"""Draws docs/dashboard.svg: the panels of deploy/grafana/heed.json, from what a Prometheus has recorded in its last seconds.

    python3 tests/bench/dashboard.py HOST:PORT docs [SECONDS]
    HEED_UPDATE=1 ./dev test watch_test    # starts a server, a load and a Prometheus, and draws what that has seen
"""
import html
import json
import math
import pathlib
import re
import sys
import time
import urllib.parse
import urllib.request

COLUMN, LINE = 42, 17  # of Grafana's grid, in pixels
POINTS = 60  # of a line
LEFT, RIGHT, TOP, LEGEND = 46, 8, 22, 24  # around a plot
COLOURS = ("#4269d0", "#e8543f", "#3ca951", "#a463f2", "#d99a00", "#4ab3c9", "#c0569b", "#8b6d3f", "#6e7f0e", "#777777")
DASHBOARD = pathlib.Path(__file__).resolve().parent.parent.parent / "deploy/grafana/heed.json"


# ------------------------------------------------------------------------------------------------------------ numbers

def ask(address, expression, seconds):
    """[(labels, [(time, value)])]"""
    expression = expression.replace("$__rate_interval", "30s").replace("$instance", ".*").replace("$model", ".*")
    now = time.time()
    query = {"query": expression, "start": now - seconds, "end": now, "step": max(1, seconds / POINTS)}
    with urllib.request.urlopen(f"http://{address}/api/v1/query_range?{urllib.parse.urlencode(query)}", timeout=60) as answer:
        found = json.load(answer)["data"]["result"]
    lines = [(one["metric"], [(t - now, float(v)) for t, v in one["values"] if not math.isnan(float(v))]) for one in found]
    return [line for line in lines if line[1]]


def named(target, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda label: labels.get(label.group(1), ""), target["legendFormat"]).strip()


def lines_of(address, panel, seconds):
    """{name: [(time, value)]}"""
    return {named(target, labels): line for target in panel["targets"]
            for labels, line in ask(address, target["expr"], seconds)}


def scaled(value, units):
    """The number with the largest of the units, (size, name) with the largest first, that it is not below."""
    size, name = next((unit for unit in units if abs(value) >= unit[0]), units[-1])
    return f"{value / size:.3g}{name}"


def shown(value, unit):
    if value == 0:
        return "0"
    if unit == "percentunit":
        return f"{value * 100:.3g}%"
    if unit == "s":
        return scaled(value, ((3600, " h"), (60, " min"), (1, " s"), (1e-3, " ms"), (1e-6, " us")))
    if unit == "bytes":
        return scaled(value, ((2 ** 30, " GiB"), (2 ** 20, " MiB"), (2 ** 10, " KiB"), (1, " B")))
    return scaled(value, ((1e6, "M"), (1e3, "k"), (1, ""))) if value >= 1 else f"{value:.2g}"


def ticks(high):
    """Three or so, round ones."""
    step = 10.0 ** math.floor(math.log10(high / 2))
    step *= max(factor for factor in (1, 2, 5) if factor * step <= high / 2)
    return [i * step for i in range(int(high / step) + 1)]


# ----------------------------------------------------------------------------------------------------------- pictures

def text(x, y, words, **attributes):
    named_so = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{named_so}>{html.escape(words)}</text>'


def number(panel, lines, width, height):
    """The last value, in the colour of the threshold that it has reached; the names where the value says nothing."""
    names = sorted(name for name in lines if name)
    value = next((line[-1][1] for line in lines.values()), 0)
    defaults = panel["fieldConfig"]["defaults"]
    words = ", ".join(names) if names else shown(value, defaults["unit"])
    colour = [step["color"] for step in defaults["thresholds"]["steps"] if value >= (step["value"] or 0)][-1]
    return [text(width / 2, height / 2 + 14, words, text_anchor="middle", font_size=22 if len(words) < 10 else 12,
                 fill={"green": "#2a7a36", "red": "#c4162a"}[colour])]


def legend(names, colours, width, y):
    """From left to right, in two lines as far as they go."""
    out, x, line = [], 8.0, 0
    for i, name in enumerate(names):
        wide = 16 + 4.9 * len(name)
        if x + wide > width - 24:
            if line == 1:
                return out + [text(x, y + 11, f"+{len(names) - i}")]
            x, line = 8.0, 1
        at = y + 11 * line
        out.append(f'<rect x="{x:.1f}" y="{at - 4:.1f}" width="8" height="3" fill="{colours[name]}"/>' + text(x + 11, at, name))
        x += wide
    return out


def plot(panel, lines, width, height, seconds):
    unit = panel["fieldConfig"]["defaults"]["unit"]
    high = 1.08 * max((value for line in lines.values() for _, value in line), default=0) or 1
    bottom = height - LEGEND - 8

    def x(when):
        return LEFT + (width - LEFT - RIGHT) * (1 + when / seconds)

    def y(value):
        return bottom - (bottom - TOP) * value / high
    out = [f'<path d="M{LEFT} {y(tick):.1f}H{width - RIGHT}" stroke="#e4e4e4"/>'
           + text(LEFT - 4, y(tick) + 3, shown(tick, unit), text_anchor="end") for tick in ticks(high)]
    names = sorted(lines)
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    for name in names:
        path = "L".join(f"{x(when):.1f} {y(value):.1f}" for when, value in lines[name])
        out.append(f'<path d="M{path}" fill="none" stroke="{colours[name]}" stroke-width="1.2"/>')
    return out + legend(names, colours, width, bottom + 14)


def picture(address, panel, seconds):
    box = panel["gridPos"]
    width, height = box["w"] * COLUMN - 6, box["h"] * LINE - 6
    out = [f'<g transform="translate({box["x"] * COLUMN + 3} {box["y"] * LINE + 3})">']
    if panel["type"] == "row":
        return out + [text(4, 12, panel["title"], font_size=13, font_weight="bold"), "</g>"]
    lines = lines_of(address, panel, seconds)
    out += [f'<rect width="{width}" height="{height}" rx="2" fill="white" stroke="#d5d5d5"/>',
            text(8, 14, panel["title"], font_size=10, font_weight="bold")]
    drawn = number(panel, lines, width, height) if panel["type"] == "stat" else plot(panel, lines, width, height, seconds)
    return out + drawn + ["</g>"]


def main(address, folder, seconds=180):
    panels = json.loads(DASHBOARD.read_text())["panels"]
    width = 24 * COLUMN
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * LINE + 6
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="8.5" fill="#333">',
           f'<rect width="{width}" height="{height}" fill="#f6f6f6"/>']
    for panel in panels:
        out += picture(address, panel, float(seconds))
    (pathlib.Path(folder) / "dashboard.svg").write_text("\n".join(out + ["</svg>"]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
