"""What watches a server agrees with what the server tells and what docs/operations.md says: each alert has its section and
its tests, each metric that a rule or the dashboard names exists, and heed.json is what dashboard.py makes.
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = "".join(path.read_text() for path in sorted((ROOT / "deploy/prometheus/rules").glob("*.yaml")))
DASHBOARD = (ROOT / "deploy/grafana/heed.json").read_text()
PROMETHEUS_OWN = {"up", "ALERTS", "scrape_duration_seconds"}


def alerts():
    found = re.findall(r"- alert: (\w+)\n", RULES)
    assert len(found) > 10
    return found


def expressions():
    """Of all rules and of the dashboard's panels."""
    rules = re.findall(r"^ +expr: (?:\|\n((?: {10,}.*\n)+)|(.*))", RULES, re.MULTILINE)
    panels = [target["expr"] for panel in json.loads(DASHBOARD)["panels"] for target in panel.get("targets", [])]
    return ["".join(rule) for rule in rules] + panels


def names(expression):
    """Of metrics."""
    without_values = re.sub(r'"[^"]*"', "", expression)
    return re.findall(r"\b(?:heed|grpc_server|process|exposer)[_:][\w:]+|\bup\b|\bALERTS\b|\bscrape_\w+", without_values)


class Alerts(unittest.TestCase):
    def test_each_has_its_section_and_links_there(self):
        sections = re.findall(r"^### (Heed\w+)$", (ROOT / "docs/operations.md").read_text(), re.MULTILINE)
        self.assertEqual(sections, alerts())
        links = re.findall(r"runbook: docs/operations\.md#(\w+)\n", RULES)
        self.assertEqual(links, [name.lower() for name in alerts()])

    def test_each_is_tried_firing_and_not_firing(self):
        tests = "".join(path.read_text() for path in (ROOT / "deploy/prometheus/tests").glob("*.yaml"))
        for quiet in ("", " []"):
            tried = set(re.findall(rf"alertname: (\w+)\n +exp_alerts:{re.escape(quiet)}\n", tests))
            self.assertEqual(tried, set(alerts()), f"exp_alerts:{quiet}")


class Names(unittest.TestCase):
    def test_each_metric_exists(self):
        exposed = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
        recorded = set(re.findall(r"- record: (\S+)\n", RULES))
        self.assertGreater(len(exposed), 40)
        self.assertGreater(len(expressions()), 60)
        unknown = {name for expression in expressions() for name in names(expression)
                   if not {name, re.sub("_(bucket|sum|count)$", "", name)} & (exposed | recorded | PROMETHEUS_OWN)}
        self.assertEqual(unknown, set())

    def test_each_recorded_one_is_used(self):
        used = [name for expression in expressions() for name in names(expression)]
        recorded = re.findall(r"- record: (\S+)\n", RULES)
        self.assertEqual([name for name in recorded if name not in used], [])


class Dashboard(unittest.TestCase):
    def test_is_what_its_script_makes(self):
        made = subprocess.run([sys.executable, "deploy/grafana/dashboard.py"], cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout
        self.assertEqual(DASHBOARD, made, "python3 deploy/grafana/dashboard.py > deploy/grafana/heed.json")


if __name__ == "__main__":
    unittest.main()
