"""A real Prometheus watches a real server under mixed load: every rule and every query of the dashboard finds its numbers.

Prometheus has the tree's own configuration but for the server's address, and looks every second instead of every 15. The
load is the client `heed` on the models that ship: what is answered, what is invalid, what is refused, deadlines that pass,
a stream that is cancelled and one that is not read. HEED_UPDATE=1 lets it go on for three minutes, and draws docs/dashboard.svg.
"""
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
import urllib.request

import served

ROOT = served.ROOT
DEPLOY = ROOT / "deploy/prometheus"
LONG = 180  # seconds that are drawn

# Few places, so that somebody is refused; little time, so that somebody is late.
CONFIG = f"""
models_folder: "{ROOT}/models"
models {{
  name: "shakespeare-sliding_window" folder: "{ROOT}/models/shakespeare-sliding_window"
  scheduling {{ max_running: 2 max_queued: 2 }}
}}
limits {{ deadline_seconds: 3 stall_seconds: 0.3 }}
"""
PEOPLE = """age,workclass,education,marital-status,occupation,hours-per-week
48,Private,Masters,Married-civ-spouse,Exec-managerial,50
19,Private,11th,Never-married,Other-service,20
"""
CALLS = (
    ("classify", "--model=polarity", "A warm, funny and beautifully acted film.", "The plot is a mess."),
    ("classify", "--model=adult", "--csv=people.csv"),
    ("generate", "--model=g2p", "--beams=4", "thorough", "transformer"),
    ("generate", "--model=shakespeare", "--max_tokens=200", "--seed=1", "ROMEO:\n"),
    ("generate", "--model=shakespeare-linear", "--max_tokens=200", "--seed=2", "JULIET:\n"),
    ("generate", "--model=shakespeare-softmax", "--max_tokens=200", "--seed=3", "HAMLET:\n"),
    ("classify", "--model=polarity", ""),  # invalid
    ("classify", "--model=nobody", "who?"),
    ("generate", "--model=shakespeare-sliding_window", "--max_tokens=300", *(f"LORD {i}:\n" for i in range(12))),  # refused
    ("generate", "--model=shakespeare", "--max_tokens=60000", "--ignore_eos", "KING LEAR:\n"),  # late
)
ENDLESS = ("generate", "--model=shakespeare-linear", "--max_tokens=60000", "--ignore_eos", "--json", "--logprobs",
           "--top_logprobs=20", "MACBETH:\n")


class Load:
    """Callers, each of which makes its call again and again until the end."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        (folder / "people.csv").write_text(PEOPLE)
        self.over = threading.Event()
        calls = [lambda call=call: self.call(call) for call in CALLS]
        self.threads = [threading.Thread(target=self.again, args=(call,)) for call in [*calls, self.cancel, self.stall]]
        for thread in self.threads:
            thread.start()

    def start(self, arguments, **streams):
        return subprocess.Popen([served.HEED, arguments[0], f"--address={self.server.address}", *arguments[1:]],
                                cwd=self.folder, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **streams)

    def again(self, call):
        while not self.over.wait(0.1):
            call()

    def call(self, arguments):
        self.start(arguments, stdout=subprocess.DEVNULL).wait()

    def cancel(self):
        with self.start(ENDLESS, stdout=subprocess.PIPE) as stream:
            stream.stdout.readline()
            stream.kill()

    def stall(self):
        """A stream that nobody reads, until the server has ended it."""
        def stalled():
            return self.server.sum("heed_request_failure_total", 'reason="CLIENT_STALLED"')
        before = stalled()
        with self.start(ENDLESS, stdout=subprocess.PIPE) as stream:
            while stream.poll() is None and stalled() == before and not self.over.wait(0.1):
                pass
            stream.kill()

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


class Prometheus:
    """One that looks at the server every second."""

    def __init__(self, server, folder):
        config = (DEPLOY / "prometheus.yml").read_text()
        for here, there in (("heed:9464", server.metrics_address), ("15s", "1s"), ("rules/*", f"{DEPLOY}/rules/*")):
            assert here in config
            config = config.replace(here, there)
        (folder / "prometheus.yml").write_text(config)
        self.process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml",
                                         f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0"],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.address = self.listening()
        self.reader = threading.Thread(target=self.process.stderr.read)
        self.reader.start()

    def listening(self):
        seen = ""
        for line in self.process.stderr:
            if found := re.search(r'Listening on".* address=(127\.0\.0\.1:[1-9]\d*)', line):
                return found.group(1)
            seen += line
        raise AssertionError(f"prometheus has ended with {self.process.wait()}:\n{seen}")

    def get(self, path, **parameters):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def values(self, expression):
        """Those that are numbers."""
        found = self.get("query", query=expression)["result"]
        return [float(one["value"][1]) for one in found if not math.isnan(float(one["value"][1]))]

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.reader.join()
        self.process.stderr.close()


def without_variables(expression):
    return expression.replace("$__rate_interval", "30s").replace("$instance", ".*").replace("$model", ".*")


def queries():
    """(panel's title, expression) of the dashboard."""
    for panel in json.loads((ROOT / "deploy/grafana/heed.json").read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], without_variables(target["expr"])


@unittest.skipUnless(shutil.which("promtool"), "no promtool")
class Rules(unittest.TestCase):
    def promtool(self, *arguments, **options):
        done = subprocess.run(["promtool", *arguments], cwd=DEPLOY, capture_output=True, text=True, timeout=300, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_configuration_is_one(self):
        self.promtool("check", "config", "prometheus.yml")

    def test_the_rules_are_some(self):
        self.promtool("check", "rules", *sorted(str(path) for path in DEPLOY.glob("rules/*.yaml")))

    def test_each_alert_fires_when_it_should_and_no_sooner(self):
        self.promtool("test", "rules", *sorted(str(path) for path in DEPLOY.glob("tests/*.yaml")))


@unittest.skipUnless(shutil.which("prometheus"), "no prometheus")
class Watched(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        served.build()
        folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.server = served.Served(CONFIG, folder)
        cls.addClassCleanup(cls.server.end)
        cls.prometheus = Prometheus(cls.server, folder)
        cls.addClassCleanup(cls.prometheus.end)
        load = Load(cls.server, folder)
        cls.addClassCleanup(load.end)
        if os.environ.get("HEED_UPDATE"):
            scrapes = f'sum(count_over_time(up{{job="heed"}}[{2 * LONG}s]))'
            served.until(lambda: cls.prometheus.values(scrapes) >= [LONG], 4 * LONG, "Prometheus looks every second")

    def all_have_values(self, expressions):
        """Each once at least, now or soon; which of them is without is what a failure says."""
        without = set(expressions)

        def all_found():
            without.difference_update([one for one in without if self.prometheus.values(one)])
            return not without
        served.until(all_found, 120, lambda: "\n".join(["these have values:", *sorted(without)]))

    def rules(self, kind):
        return [rule for group in self.prometheus.get("rules")["groups"] for rule in group["rules"] if rule["type"] == kind]

    def test_every_query_of_the_dashboard_has_values(self):
        expressions = [expression for _, expression in queries()]
        self.assertGreater(len(expressions), 40)
        self.all_have_values(expressions)

    def test_every_rule_is_evaluated_and_what_it_records_is_there(self):
        served.until(lambda: all(rule["health"] != "unknown" for rule in self.rules("recording") + self.rules("alerting")),
                     60, "every rule is evaluated")
        self.assertEqual([(rule["name"], rule.get("lastError")) for rule in self.rules("recording") + self.rules("alerting")
                          if rule["health"] != "ok"], [])
        self.all_have_values({rule["name"] for rule in self.rules("recording")})

    def test_what_the_server_exposes_is_as_prometheus_wants_it(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=self.server.metrics(), capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("exposer_")]
        self.assertEqual(said, [])

    @classmethod
    def tearDownClass(cls):
        if os.environ.get("HEED_UPDATE"):
            subprocess.run([sys.executable, "tests/bench/dashboard.py", cls.prometheus.address, "docs", str(LONG)], cwd=ROOT,
                           check=True)


if __name__ == "__main__":
    unittest.main()
