"""deploy/grafana/heed.json is a dashboard as Grafana publishes what one is.

Grafana generates classes from its schema, with the type of each field and the values that it may have, and publishes them
in PyPI. The dashboard is read into them: a key that they do not know is lost on the way, and found to be; what they hold
has the types that they name. Where PyPI cannot be reached, nothing is tried, and that is said.
"""
import enum
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import typing
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE, VERSION = "grafana-foundation-sdk", "1769699379!11.6.0"
HOST_CERTIFICATES = "/host/etc/ssl/certs/ca-certificates.crt"  # those that a network of the host's own may need


def installed():
    """The folder that the package is in, got once, in the cache; None, said once, where it cannot be had."""
    cache = pathlib.Path(os.environ.get("HEED_CACHE") or pathlib.Path.home() / ".cache/heed")
    folder = cache / f"{PACKAGE}-{VERSION.partition('!')[2]}"
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        env = {**os.environ, **({"PIP_CERT": HOST_CERTIFICATES} if os.path.exists(HOST_CERTIFICATES) else {})}
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:",
                               f"--target={work}/package", f"{PACKAGE}=={VERSION}"], env=env, capture_output=True,
                              text=True, timeout=300)
        if done.returncode:
            print(f"not run: {PACKAGE} ({done.stderr.strip().rpartition(chr(10))[2]})", flush=True)
            return None
        os.replace(f"{work}/package", folder)
    return folder


def lost(ours, theirs, where="dashboard"):
    """Paths of ours that theirs, which may say more, do not have or have otherwise."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from lost(value, theirs[key], f"{where}.{key}") if key in theirs or value is None else [f"{where}.{key}"]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, (a, b) in enumerate(zip(ours, theirs)):
            yield from lost(a, b, f"{where}[{i}]")
    elif ours != theirs:
        yield where


def fits(value, hint):
    """Whether the value is of the type; of fields of classes see wrong()."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in (object, typing.Any):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is typing.Literal:
        return value in inner
    if origin in (list, dict):
        return isinstance(value, origin) and all(fits(one, inner[-1]) for one in (value if origin is list else value.values()))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value in [one.value for one in hint]
    if hint in (float, int):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, hint)


def wrong(value, where="dashboard"):
    """Paths of fields, of this object and those in it, whose values are not of the field's type."""
    if isinstance(value, list):
        for i, one in enumerate(value):
            yield from wrong(one, f"{where}[{i}]")
    elif hasattr(value, "to_json"):
        hints = typing.get_type_hints(type(value))
        for name, field in vars(value).items():
            if name in hints and not fits(field, hints[name]):
                yield f"{where}.{name}: {field!r} is no {hints[name]}"
            yield from wrong(field, f"{where}.{name}")


class Schema(unittest.TestCase):
    def setUp(self):
        folder = installed()
        if not folder:
            self.skipTest(f"no {PACKAGE}")
        sys.path.insert(0, str(folder))
        self.addCleanup(sys.path.remove, str(folder))
        importlib.import_module("grafana_foundation_sdk.cog.plugins").register_default_plugins()
        self.encoder = importlib.import_module("grafana_foundation_sdk.cog.encoder").JSONEncoder
        self.dashboard = importlib.import_module("grafana_foundation_sdk.models.dashboard").Dashboard

    def problems(self, text):
        read = self.dashboard.from_json(json.loads(text))
        return [*wrong(read), *lost(json.loads(text), json.loads(json.dumps(read, cls=self.encoder)))]

    def test_the_dashboard_follows_it(self):
        self.assertEqual(self.problems((ROOT / "deploy/grafana/heed.json").read_text()), [])

    def test_one_that_does_not_is_found(self):
        text = (ROOT / "deploy/grafana/heed.json").read_text()
        for right, mistake in (('"graphTooltip": 1', '"graphTooltip": 7'), ('"title": "Heed"', '"titel": "Heed"'),
                               ('"legendFormat"', '"legend"'), ('"showPoints": "never"', '"showPoints": "seldom"'),
                               ('"lineWidth": 1', '"lineWidth": "thin"')):
            with self.subTest(mistake):
                self.assertIn(right, text)
                self.assertNotEqual(self.problems(text.replace(right, mistake)), [])


class Layout(unittest.TestCase):
    def test_no_panel_lies_on_another(self):
        taken = {}
        for panel in json.loads((ROOT / "deploy/grafana/heed.json").read_text())["panels"]:
            box = panel["gridPos"]
            self.assertLessEqual(box["x"] + box["w"], 24)
            for cell in [(x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])]:
                self.assertEqual(taken.setdefault(cell, panel["title"]), panel["title"])
        self.assertGreater(len(taken), 1000)


if __name__ == "__main__":
    unittest.main()
