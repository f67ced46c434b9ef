"""The Kubernetes manifests and compose.yaml as those read them who will: kustomize renders them, a validator with the
schemas of Kubernetes checks what comes out, the Prometheus operator's own types read the ServiceMonitor, docker-compose
reads its file, promtool the autoscaler's query. Then what is rendered is looked at: it must fit together after every patch, too.

kustomize, docker-compose and promtool are Debian's (manifests_test-packages.txt); kubernetes-validate, which carries the schemas, is
PyPI's; the operator's types are a Go module. What cannot be had is skipped.
"""
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import registry
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
KUBERNETES = ROOT / "deploy/kubernetes"
FOLDERS = ("base", "overlays/production")
VALIDATE = ("kubernetes-validate", "1.37.0")
VERSIONS = ("1.30", "1.37")  # of Kubernetes: the first that knows all of it, and the last that the validator carries


def setUpModule():
    subprocess.run(["./dev", "build", "release", "heed"], cwd=ROOT, check=True)


def rendered(folder):
    text = subprocess.run(["kustomize", "build", KUBERNETES / folder], capture_output=True, text=True, check=True).stdout
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(documents, kind):
    """The one of this kind."""
    found, = (document for document in documents if document["kind"] == kind)
    return found


class Schemas(unittest.TestCase):
    def setUp(self):
        self.validate = registry.python_program(*VALIDATE)
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, document):
        path = self.folder / f"{document['kind'].lower()}.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    def validated(self, document, version):
        """What the validator says of it; empty if all is well."""
        command = [self.validate, "--strict", "--kubernetes-version", version, self.write(document)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.stdout + done.stderr if done.returncode else ""

    def test_every_manifest_is_what_kubernetes_takes(self):
        if not self.validate:
            self.skipTest("no kubernetes-validate")
        for folder in FOLDERS:
            for document in rendered(folder):
                if document["kind"] == "ServiceMonitor":
                    continue
                for version in VERSIONS:
                    with self.subTest(folder, kind=document["kind"], version=version):
                        self.assertEqual(self.validated(document, version), "")

    def test_a_field_that_kubernetes_does_not_have_is_refused(self):
        if not self.validate:
            self.skipTest("no kubernetes-validate")
        wrong = of_kind(rendered("base"), "Deployment")
        wrong["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["period"] = 10
        self.assertIn("period", self.validated(wrong, VERSIONS[0]))

    def test_the_service_monitor_is_what_the_operator_reads(self):
        reader = registry.go_module(ROOT / "tests/service_monitor")
        if not reader:
            self.skipTest("no reader of ServiceMonitors")
        for folder in FOLDERS:
            monitor = of_kind(rendered(folder), "ServiceMonitor")
            self.assertEqual(subprocess.run([reader, self.write(monitor)], timeout=60).returncode, 0)
        monitor["spec"]["endpoints"][0]["every"] = "15s"
        done = subprocess.run([reader, self.write(monitor)], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn('unknown field "every"', done.stderr)


class Rendered(unittest.TestCase):
    def each(self):
        for folder in FOLDERS:
            documents = rendered(folder)
            self.assertEqual(len(documents), len({document["kind"] for document in documents}))
            yield documents

    def test_the_pod_reads_the_config_that_is_beside_it(self):
        for documents in self.each():
            config = of_kind(documents, "ConfigMap")
            self.assertRegex(config["metadata"]["name"], "^heed-[a-z0-9]{10}$")  # another config is another rollout
            pod = of_kind(documents, "Deployment")["spec"]["template"]["spec"]
            self.assertIn({"name": "config", "configMap": {"name": config["metadata"]["name"]}}, pod["volumes"])
            command = pod["containers"][0]["command"]
            mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
            self.assertIn(f"--config={mounts['config']}/heed.textproto", command)
            self.assertIn(f'models_folder: "{mounts["models"]}"\n', config["data"]["heed.textproto"])

    def test_the_pod_s_grace_fits_its_config(self):
        for documents in self.each():
            pod = of_kind(documents, "Deployment")["spec"]["template"]["spec"]
            config = of_kind(documents, "ConfigMap")["data"]["heed.textproto"]
            shutdown = re.search(r"shutdown { delay_seconds: (\d+) grace_seconds: (\d+) }", config)
            drain = sum(map(int, shutdown.groups()))
            hook = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
            self.assertGreater(pod["terminationGracePeriodSeconds"], hook + drain + 5)

    def test_the_volume_is_the_one_that_is_claimed(self):
        for documents in self.each():
            claim = of_kind(documents, "PersistentVolumeClaim")["metadata"]["name"]
            volumes = of_kind(documents, "Deployment")["spec"]["template"]["spec"]["volumes"]
            self.assertIn({"name": "models", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}, volumes)

    def test_all_that_select_pods_select_these(self):
        for documents in self.each():
            deployment = of_kind(documents, "Deployment")["spec"]
            labels = deployment["template"]["metadata"]["labels"]
            selectors = [deployment["selector"]["matchLabels"], of_kind(documents, "Service")["spec"]["selector"],
                         of_kind(documents, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
                         of_kind(documents, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
                         deployment["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]]
            self.assertEqual(selectors, [labels] * len(selectors))
            monitor = of_kind(documents, "ServiceMonitor")["spec"]
            self.assertEqual(of_kind(documents, "Service")["metadata"]["labels"], monitor["selector"]["matchLabels"])
            self.assertEqual(labels[monitor["jobLabel"]], "heed")

    def test_ports_that_have_a_name_are_the_pod_s(self):
        for documents in self.each():
            pod = of_kind(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
            ports = {port["name"]: port["containerPort"] for port in pod["ports"]}
            service = of_kind(documents, "Service")["spec"]
            self.assertEqual({port["targetPort"]: port["port"] for port in service["ports"]}, ports)
            self.assertEqual(service["clusterIP"], "None")  # else a client's one connection stays with one pod
            rules = of_kind(documents, "NetworkPolicy")["spec"]["ingress"]
            self.assertEqual([rule["ports"][0]["port"] for rule in rules], list(ports))
            self.assertIn(of_kind(documents, "ServiceMonitor")["spec"]["endpoints"][0]["port"],
                          [port["name"] for port in service["ports"]])

    def test_the_autoscaler_moves_the_deployment(self):
        for documents in self.each():
            deployment, scaler = of_kind(documents, "Deployment"), of_kind(documents, "HorizontalPodAutoscaler")["spec"]
            self.assertEqual(scaler["scaleTargetRef"], {"apiVersion": deployment["apiVersion"], "kind": "Deployment",
                                                        "name": deployment["metadata"]["name"]})
            self.assertNotIn("replicas", deployment["spec"])  # each apply would undo what the autoscaler did
            self.assertGreaterEqual(scaler["minReplicas"], 2)
            self.assertGreater(scaler["maxReplicas"], scaler["minReplicas"])

    def test_the_pod_is_nobody_and_can_write_nowhere(self):
        for documents in self.each():
            pod = of_kind(documents, "Deployment")["spec"]["template"]["spec"]
            self.assertEqual(pod["securityContext"], {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532,
                                                      "seccompProfile": {"type": "RuntimeDefault"}})
            self.assertEqual(pod["containers"][0]["securityContext"],
                             {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                              "capabilities": {"drop": ["ALL"]}})
            self.assertFalse(pod["automountServiceAccountToken"])
            self.assertTrue(all(mount["readOnly"] for mount in pod["containers"][0]["volumeMounts"]))
            self.assertIn("USER 65532:65532", (ROOT / "Dockerfile").read_text())

    def test_cpus_are_whole_and_the_same_at_least_and_at_most(self):
        for documents in self.each():
            resources = of_kind(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]["resources"]
            self.assertEqual(resources["requests"], resources["limits"])
            self.assertRegex(resources["limits"]["cpu"], r"^\d+$")

    def test_the_overlay_s_own_words_come_through(self):
        documents = rendered("overlays/production")
        self.assertEqual({document["metadata"].get("namespace", "heed") for document in documents}, {"heed"})
        pod = of_kind(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
        version = re.search(r"project\(heed .*VERSION (\S+)\)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(pod["image"], f"registry.example.com/heed:{version}")
        self.assertEqual(pod["resources"]["limits"], {"cpu": "16", "memory": "32Gi"})
        self.assertIn("reflection: false", of_kind(documents, "ConfigMap")["data"]["heed.textproto"])
        self.assertEqual(of_kind(documents, "PersistentVolumeClaim")["spec"]["storageClassName"], "shared-files")


class Adapter(unittest.TestCase):
    def test_the_autoscaler_s_metric_is_the_mean_wait_of_a_pod(self):
        rule, = yaml.safe_load((KUBERNETES / "prometheus-adapter.yaml").read_text())["rules"]["custom"]
        query = rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="heed"').replace("<<.GroupBy>>", "pod")
        series = {  # each 15 seconds: pod, model: more seconds, more inputs
            ("busy", "a"): ("0+3x40", "0+10x40"), ("busy", "b"): ("0+1x40", "0+10x40"), ("idle", "a"): ("5x40", "7x40")}
        inputs = [{"series": f'heed_request_queue_time_seconds_{kind}{{namespace="heed",pod="{pod}",model_name="{model}"}}',
                   "values": values}
                  for (pod, model), both in series.items() for kind, values in zip(("sum", "count"), both)]
        expected = [{"labels": '{pod="busy"}', "value": 0.2}, {"labels": '{pod="idle"}', "value": 0}]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"tests": [{"interval": "15s", "input_series": inputs, "promql_expr_test": [
                {"expr": f"round({query}, 0.001)", "eval_time": "10m", "exp_samples": expected}]}]}, file)
            file.flush()
            done = subprocess.run(["promtool", "test", "rules", file.name], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Compose(unittest.TestCase):
    def services(self, **environment):
        command = ["docker-compose", "--file", "deploy/compose.yaml", "config", "--format=json"]
        done = subprocess.run(command, cwd=ROOT, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)["services"]

    def test_every_container_is_confined_watched_and_bounded(self):
        services = self.services()
        self.assertEqual(set(services), {"heed", "prometheus", "grafana"})
        for name, service in services.items():
            with self.subTest(name):
                self.assertTrue(service["read_only"])
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertEqual(service["security_opt"], ["no-new-privileges:true"])
                self.assertRegex(service["user"], r"^[1-9]\d*:\d+$")
                self.assertEqual(set(service["deploy"]["resources"]["limits"]), {"cpus", "memory", "pids"})
                self.assertIn("test", service["healthcheck"])
                self.assertTrue(all(port["host_ip"] == "127.0.0.1" for port in service["ports"]))

    def test_what_is_mounted_is_read_only_but_for_the_volumes_of_data(self):
        for service in self.services().values():
            for volume in service["volumes"]:
                self.assertEqual(volume.get("read_only", False), volume["type"] == "bind", volume)

    def test_models_cpus_and_memory_are_the_environment_s_to_say(self):
        heed = self.services(HEED_MODELS="/elsewhere", HEED_CPUS="6", HEED_MEMORY="12g")["heed"]
        self.assertIn("/elsewhere", [volume["source"] for volume in heed["volumes"]])
        self.assertEqual(heed["deploy"]["resources"]["limits"], {"cpus": 6, "memory": str(12 << 30), "pids": 512})

    def test_the_server_starts_with_what_it_is_given(self):
        """The image's words and then compose's, with the folders of this checkout where compose mounts them."""
        service = self.services()["heed"]
        words = [word.strip('" ') for word in re.search(r"ENTRYPOINT \[(.*)\]",
                                                        (ROOT / "Dockerfile").read_text())[1].split(",")]
        places = {volume["target"]: volume["source"] for volume in service["volumes"]}
        command = " ".join(words[1:] + service["command"])
        for target, source in places.items():
            self.assertIn(f"={target}", command)
            command = command.replace(f"={target}", f"={source}")
        done = subprocess.run([ROOT / "build/release/heed", *command.split(), "--check"], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
