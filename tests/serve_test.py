"""`heed serve` as whoever starts it meets it: told to stop while it loads a large model; what it prints; given a port that is taken.

The large model is made here: a decoder of 4 GB of zeros, whose weights file is a hole and takes no disk. It is loaded
after a small one, so that the lines of the log say when to send the signal.
"""
import json
import math
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS, WIDTH, HIDDEN = 24, 2048, 16384


def tensors():
    """The names and shapes of the model's weights."""
    yield "embed.tokens.weight", (256, WIDTH)
    yield "norm.weight", (WIDTH,)
    for layer in range(LAYERS):
        yield f"layers.{layer}.norm1.weight", (WIDTH,)
        yield f"layers.{layer}.norm2.weight", (WIDTH,)
        for name in "qkvo":
            yield f"layers.{layer}.attention.{name}.weight", (WIDTH, WIDTH)
        yield f"layers.{layer}.ffn.up.weight", (HIDDEN, WIDTH)
        yield f"layers.{layer}.ffn.down.weight", (WIDTH, HIDDEN)


def write_hole(path):
    """All tensors in bf16, zeros that no one has written."""
    header, end = {}, 0
    for name, shape in tensors():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def write_large(folder):
    layer = {"attention": {"type": "softmax"}, "ffn": {"type": "dense"}}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "model_type": "heed", "architecture": "decoder", "tokenizer": "bytes", "vocab_size": 256, "hidden_size": WIDTH,
        "num_attention_heads": 16, "intermediate_size": HIDDEN, "hidden_act": "relu", "norm": "pre",
        "norm_type": "rms", "positions": "none", "attention_bias": False, "head": "lm", "tie_word_embeddings": True,
        "layers": [layer] * LAYERS}))
    write_hole(folder / "model.safetensors")


def build():
    subprocess.run(["./dev", "build", "release", "heed"], cwd=ROOT, check=True)


class Loading(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build()
        cls.world = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.world)
        shutil.copytree(ROOT / "models/polarity", cls.world / "models/a-small-one")
        write_large(cls.world / "models/the-large-one")

    def end_of(self, event, number):
        """Starts the server, sends the signal at the log's line of that event. Returns exit status, log and output."""
        command = [ROOT / "build/release/heed", "serve", f"--models={self.world / 'models'}", "--precision=bf16",
                   "--address=127.0.0.1:0", "--metrics_address="]
        with subprocess.Popen(command, cwd=self.world, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as server:
            try:
                seen = ""
                while f'"event":"{event}"' not in seen:
                    line = server.stderr.readline()
                    self.assertTrue(line, f"no event '{event}' in the log:\n{seen}")
                    seen += line
                server.send_signal(number)
                out, log = server.communicate(timeout=60)
                return server.returncode, log, out
            finally:
                server.kill()

    def test_a_signal_while_a_large_model_loads_is_success_and_loading_is_not_waited_for(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            for event in ("starting", "model loaded"):  # the small one
                with self.subTest(event=event, number=number):
                    status, log, out = self.end_of(event, number)
                    self.assertEqual(status, 0)  # a crash, and its core, would be -SIGSEGV or the like
                    self.assertIn('"event":"stopped","while":"loading"', log)
                    self.assertNotIn("the-large-one", log)  # neither loaded nor failed
                    self.assertNotIn("listening on", out)


class Log(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build()
        cls.config = tempfile.NamedTemporaryFile("w", suffix=".textproto")
        cls.addClassCleanup(cls.config.close)
        cls.config.write(f'models {{ name: "digits" folder: "{ROOT}/models/digits" }} log {{ level: LOG_LEVEL_ERROR }}')
        cls.config.flush()

    def events(self, *flags):
        """What a server with these flags prints from its start to its end, and one call of health in between."""
        heed = ROOT / "build/release/heed"
        command = [heed, "serve", f"--config={self.config.name}", "--address=127.0.0.1:0", "--metrics_address=", *flags]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as server:
            try:
                address = server.stdout.readline().removeprefix("listening on ").strip()
                subprocess.run([heed, "health", f"--address={address}", "--request_id=asked"], check=True, timeout=60,
                               capture_output=True)
                server.send_signal(signal.SIGTERM)
                _, log = server.communicate(timeout=60)
            finally:
                server.kill()
        self.assertEqual(server.returncode, 0)
        return [json.loads(line) for line in log.splitlines()]

    def test_the_level_decides_what_is_printed_and_flags_win_over_the_config(self):
        self.assertEqual(self.events(), [])
        info = {line["event"] for line in self.events("--log_level=info")}
        self.assertLessEqual({"starting", "model loaded", "serving", "signal", "stopped"}, info)
        self.assertNotIn("call", info)
        debug = {line["event"] for line in self.events("--log_level=debug")}
        self.assertEqual(debug - info, {"listening", "loading model", "refusing"})

    def test_each_call_has_its_line_whatever_the_level(self):
        call, = self.events("--access_log")
        self.assertEqual((call["event"], call["request_id"], call["service"], call["method"], call["code"]),
                         ("call", "asked", "grpc.health.v1.Health", "Check", "OK"))

    def test_a_level_that_is_none_is_refused_with_those_that_are(self):
        done = subprocess.run([ROOT / "build/release/heed", "serve", "--log_level=loud"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--log_level=loud: must be debug, info, warning or error", done.stderr)


class Ports(unittest.TestCase):
    def test_one_that_is_taken_is_named_and_the_server_ends(self):
        build()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            for flag, other in (("address", "metrics_address"), ("metrics_address", "address")):
                with self.subTest(flag):
                    done = subprocess.run([ROOT / "build/release/heed", "serve", f"--models={ROOT / 'models'}",
                                           f"--{flag}=127.0.0.1:{port}", f"--{other}=127.0.0.1:0"],
                                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertIn(f"heed: {flag} is '127.0.0.1:{port}', which cannot be listened on: "
                                  "the port may be taken\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
