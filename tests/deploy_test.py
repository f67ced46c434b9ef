"""What deploy/ says of Heed is so: flags, config fields, ports, metrics, the names that health knows, and times that fit.

Nothing but Python and the release build; what needs a validator is in manifests_test.py, the Debian package in deb_test.py.
"""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
HEED = ROOT / "build/release/heed"
PRESTOP = r"preStop:\s+sleep: \{seconds: (\d+)\}"
LAST_WRITES = 2  # seconds that the server gives answers after its grace; kLastWrites of server.cc, twice


def setUpModule():
    subprocess.run(["./dev", "build", "release", "heed"], cwd=ROOT, check=True)


def heed(*words):
    return subprocess.run([HEED, *words], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def one(pattern, path):
    """What the pattern captures, which is in the file once."""
    found = re.findall(pattern, path.read_text())
    assert len(found) == 1, f"{path}: {len(found)} x {pattern}"
    return found[0]


def configs():
    return sorted(DEPLOY.rglob("heed.textproto"))


def drain_seconds(config):
    """What a server with this config takes at the most from SIGTERM to its end."""
    return sum(map(int, one(r"shutdown { delay_seconds: (\d+) grace_seconds: (\d+) }", config))) + LAST_WRITES


class Config(unittest.TestCase):
    def test_each_config_is_one_that_the_server_takes(self):
        self.assertEqual(len(configs()), 3)
        for path in configs():
            with self.subTest(path):
                done = heed("serve", f"--config={path}", "--models=models", "--check")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("polarity: ", done.stdout)

    def test_a_field_that_is_none_would_be_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
            file.write("shutdown { grace: 5 }")
            file.flush()
            done = heed("serve", f"--config={file.name}", "--models=models", "--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn('no field named "grace"', done.stderr)

    def test_it_may_be_a_volume_of_kubernetes(self):
        """There a file is a link into a folder that is a link: all files change at once."""
        with tempfile.TemporaryDirectory() as folder:
            data = pathlib.Path(folder, "..2026_11_22")
            data.mkdir()
            shutil.copy(KUBERNETES / "base/heed.textproto", data)
            (data.parent / "..data").symlink_to(data.name)
            (data.parent / "heed.textproto").symlink_to("..data/heed.textproto")
            done = heed("serve", f"--config={folder}/heed.textproto", "--models=models", "--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_every_flag_that_a_server_is_started_with_is_one(self):
        known = set(re.findall(r"^  --(\w+)", heed("serve", "--help").stdout, re.MULTILINE))
        starts = {DEPLOY / "heed.service": r"ExecStart=(.*)", ROOT / "Dockerfile": r"ENTRYPOINT (.*)",
                  DEPLOY / "compose.yaml": r"# After the image.*\n +command: (.*)",
                  KUBERNETES / "base/deployment.yaml": r"command: (.*)"}
        for path, pattern in starts.items():
            with self.subTest(path):
                flags = set(re.findall(r"--(\w+)", one(pattern, path)))
                self.assertIn("address" if path.name == "Dockerfile" else "config", flags)
                self.assertEqual(flags - known, set())

    def test_the_config_lies_where_the_server_is_told_to_look(self):
        self.assertIn("--config=/etc/heed/heed.textproto", one(r"ExecStart=(.*)", DEPLOY / "heed.service"))
        self.assertIn("source: ./heed.textproto, target: /etc/heed/heed.textproto,",
                      (DEPLOY / "compose.yaml").read_text())
        self.assertIn("name: config, mountPath: /etc/heed,", (KUBERNETES / "base/deployment.yaml").read_text())


class Times(unittest.TestCase):
    def test_whoever_stops_a_server_waits_until_it_has_drained(self):
        package = drain_seconds(DEPLOY / "heed.textproto")
        self.assertGreater(float(one(r"TimeoutStopSec=(\d+)", DEPLOY / "heed.service")), package)
        heed_of_compose = (DEPLOY / "compose.yaml").read_text().partition("\n  prometheus:\n")[0]
        self.assertGreater(float(re.search(r"stop_grace_period: (\d+)s", heed_of_compose)[1]), package)

    def test_a_pod_s_grace_is_longer_than_its_hook_and_its_server_s_drain(self):
        hook = float(one(PRESTOP, KUBERNETES / "base/deployment.yaml"))
        for folder in ("base", "overlays/production"):
            with self.subTest(folder):
                grace = float(one(r"terminationGracePeriodSeconds: (\d+)", KUBERNETES / folder / "deployment.yaml"))
                self.assertGreaterEqual(grace, hook + drain_seconds(KUBERNETES / folder / "heed.textproto") + 5)

    def test_the_server_s_last_writes_are_as_long_as_is_said_here(self):
        text = one(r"kLastWrites =\s+std::chrono::seconds\((\d+)\)", ROOT / "server/service/server.cc")
        self.assertEqual(2 * int(text), LAST_WRITES)


class Ports(unittest.TestCase):
    def test_they_are_the_same_wherever_they_are_named(self):
        grpc, metrics = re.findall(r"_?address=0\.0\.0\.0:(\d+)", one(r"ENTRYPOINT (.*)", ROOT / "Dockerfile"))
        for path in configs():
            with self.subTest(path):
                self.assertEqual(one(r'(?m)^address: ".*:(\d+)"', path), grpc)
                self.assertEqual(one(r'metrics_address: ".*:(\d+)"', path), metrics)
        deployment = (KUBERNETES / "base/deployment.yaml").read_text()
        self.assertIn(f"name: grpc, containerPort: {grpc}", deployment)
        self.assertIn(f"name: metrics, containerPort: {metrics}", deployment)
        self.assertEqual(re.findall(r"grpc: \{port: (\d+)", deployment), [grpc] * 3)
        self.assertEqual(re.findall(r"port: (\d+)", (KUBERNETES / "base/service.yaml").read_text()), [grpc, metrics])
        self.assertIn(f"127.0.0.1:{grpc}:{grpc}", (DEPLOY / "compose.yaml").read_text())

    def test_prometheus_scrapes_what_compose_starts(self):
        metrics = one(r"metrics_address=0\.0\.0\.0:(\d+)", ROOT / "Dockerfile")
        text = (DEPLOY / "prometheus/prometheus.yml").read_text()
        self.assertIn(f"targets: [heed:{metrics}]", text)
        self.assertIn("job_name: heed\n", text)


class Compose(unittest.TestCase):
    def test_what_it_mounts_is_there(self):
        sources = re.findall(r"source: (\S+?),", (DEPLOY / "compose.yaml").read_text())
        self.assertGreater(len(sources), 4)
        for source in sources:
            with self.subTest(source):
                path = re.sub(r'"\$\{\w+:-(.*)\}"', r"\1", source)
                self.assertTrue((DEPLOY / path).exists())

    def test_the_dashboard_lies_where_grafana_is_told_to_look(self):
        folder = one(r"target: (/\S+)/heed\.json", DEPLOY / "compose.yaml")
        self.assertEqual(one(r"path: (\S+)", DEPLOY / "grafana/provisioning/dashboards/heed.yaml"), folder)


class Metrics(unittest.TestCase):
    def test_each_that_the_manifests_name_is_exposed(self):
        families = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
        self.assertIn("heed_request_queue_time_seconds", families)
        named = {name for path in KUBERNETES.rglob("*.yaml") for name in re.findall(r"\bheed_\w+", path.read_text())}
        self.assertIn("heed_request_queue_time_seconds_sum", named)
        self.assertEqual({re.sub(r"_(sum|count|bucket)$", "", name) for name in named} - families, set())

    def test_the_autoscaler_s_is_the_one_that_the_adapter_makes(self):
        adapter = (KUBERNETES / "prometheus-adapter.yaml").read_text()
        series = re.search(r"seriesQuery: (\w+)\{", adapter)[1]
        pattern, made = re.search(r'name: \{matches: "(.*?)", as: "(.*?)"\}', adapter).groups()
        metric = re.sub(pattern, made.replace("$1", r"\1"), series)
        self.assertEqual(one(r"metric: \{name: (\w+)\}", KUBERNETES / "base/autoscaler.yaml"), metric)


class Probes(unittest.TestCase):
    def test_health_knows_the_names_that_are_probed(self):
        deployment = (KUBERNETES / "base/deployment.yaml").read_text()
        services = re.findall(r"grpc: \{port: \d+(?:, service: ([\w.]+))?\}", deployment)
        self.assertEqual(services, ["", "", "heed.v1.Server"])
        command = [HEED, "serve", f"--config={KUBERNETES / 'base/heed.textproto'}", "--models=models",
                   "--address=127.0.0.1:0", "--metrics_address="]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as server:
            try:
                address = re.match(r"listening on (\S+)", server.stdout.readline())[1]
                for service in services:
                    self.assertEqual(heed("health", f"--address={address}", f"--model={service}").stdout, "SERVING\n")
                self.assertEqual(heed("health", f"--address={address}", "--model=heed.v1.Nobody").returncode, 1)
            finally:
                server.kill()

    def test_with_tls_they_ask_the_same_through_the_client(self):
        commands = re.findall(r"exec: \{command: \[(.*)\]\}", (ROOT / "docs/operations.md").read_text())
        known = set(re.findall(r"^  --(\w+)", heed("health", "--help").stdout, re.MULTILINE))
        self.assertEqual(len(commands), 3)
        for command in commands:
            words = command.split(", ")
            self.assertEqual(words[:3], ["heed", "health", "--address=localhost:8461"])
            self.assertEqual(set(re.findall(r"--(\w+)", command)) - known, set())
        services = [re.findall(r"--model=([\w.]+)", command) for command in commands]
        self.assertEqual(services, [[], [], ["heed.v1.Server"]])


if __name__ == "__main__":
    unittest.main()
