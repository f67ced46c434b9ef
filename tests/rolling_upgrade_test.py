"""An upgrade without a lost request: of two servers under load each is drained and replaced by a new one, and every call is
answered in full.

The client is any gRPC client: it knows both addresses and the service config of docs/operations.md, which is read from that
page, but for its retries: with health checks it has left a server before that refuses anything.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import served

ROOT = served.ROOT
CONFIG = f"""
models {{ name: "polarity" folder: "{ROOT}/models/polarity" }}
models {{ name: "shakespeare" folder: "{ROOT}/models/shakespeare" }}
"""
ANSWERED = 20  # calls by which a server is known to have its share


def service_config():
    page = (ROOT / "docs/operations.md").read_text()
    return json.loads(re.search(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL).group(1))


class Callers:
    """Threads that classify and generate, one call after the other, until the end. What went wrong is kept."""

    def __init__(self, stub, messages):
        self.stub, self.messages = stub, messages
        self.over, self.answered, self.wrong = threading.Event(), 0, []
        self.threads = [threading.Thread(target=self.again, args=(call,)) for call in 2 * [self.classify, self.generate]]
        for thread in self.threads:
            thread.start()

    def again(self, call):
        while not self.over.is_set():
            try:
                call()
                self.answered += 1
            except Exception as error:  # whatever it is, a call was lost
                self.wrong.append(repr(error))

    def classify(self):
        request = self.messages.ClassifyRequest(target={"model": "polarity"}, inputs=[{"text": "A warm and funny film."}])
        assert self.stub.Classify(request, timeout=30).results[0].value.labels

    def generate(self):
        events = list(self.stub.Generate(self.text(300), timeout=30))
        assert events[-1].finished.usage.output_tokens == 300, events[-1]

    def text(self, tokens):
        return self.messages.GenerateRequest(target={"model": "shakespeare"}, inputs=[{"text": "HAMLET:"}],
                                             stopping={"max_tokens": tokens, "ignore_eos": True})

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


class RollingUpgrade(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        served.build()
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        plugin = shutil.which("grpc_python_plugin")
        protos = sorted(str(path) for path in (ROOT / "proto/heed/v1").glob("*.proto"))
        subprocess.run(["protoc", f"--proto_path={ROOT}/proto", f"--python_out={cls.folder}",
                        f"--grpc_python_out={cls.folder}", f"--plugin=protoc-gen-grpc_python={plugin}", *protos], check=True)
        sys.path.insert(0, str(cls.folder))
        cls.addClassCleanup(sys.path.remove, str(cls.folder))

    def serve(self, shutdown, address="127.0.0.1:0"):
        server = served.Served(CONFIG + f"shutdown {{ {shutdown} }}", self.folder, address)
        self.addCleanup(server.end)
        return server

    def until_answering(self, server):
        done = 'grpc_service="heed.v1.Inference"', 'grpc_code="OK"'
        served.until(lambda: server.sum("grpc_server_handled_total", *done) >= ANSWERED, 60, "the server has its share")

    def upgrade(self, shutdown, config):
        """Both servers, one after the other. Returns the callers, who have ended."""
        import grpc
        from heed.v1 import inference_pb2, inference_pb2_grpc
        servers = [self.serve(shutdown) for _ in range(2)]
        channel = grpc.insecure_channel("ipv4:" + ",".join(server.address for server in servers), options=[
            ("grpc.service_config", json.dumps(config)), ("grpc.max_reconnect_backoff_ms", 500)])
        self.addCleanup(channel.close)
        callers = Callers(inference_pb2_grpc.InferenceStub(channel), inference_pb2)
        self.addCleanup(callers.end)
        for server in servers:
            self.until_answering(server)
            with grpc.insecure_channel(server.address) as direct:  # a text that is begun before the drain, and ends after it
                text = inference_pb2_grpc.InferenceStub(direct).Generate(callers.text(600))
                next(text)
                server.drain()
                self.assertEqual(list(text)[-1].finished.usage.output_tokens, 600)
            self.assertEqual(server.end(), 0)
            self.until_answering(self.serve(shutdown, server.address))
        callers.end()
        return callers

    def test_with_health_checks_and_a_delay_nothing_is_even_refused(self):
        config = service_config()
        for method in config["methodConfig"]:
            del method["retryPolicy"]
        callers = self.upgrade("delay_seconds: 2 grace_seconds: 60", config)
        self.assertEqual(callers.wrong, [])
        self.assertGreater(callers.answered, 4 * ANSWERED)


if __name__ == "__main__":
    unittest.main()
