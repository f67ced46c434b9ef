"""A `heed serve` of the release build, for tests that look at one from outside; and waiting for what it will show."""
import pathlib
import re
import signal
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEED = ROOT / "build/release/heed"


def build():
    subprocess.run(["./dev", "build", "release", "heed"], cwd=ROOT, check=True)


def until(condition, seconds, what):
    """What the condition gives once it is true; fails with the sentence `what`, or what it returns, if it stays false."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.05)
    return found


class Served:
    """A server on free ports, or on `address`, ready when this is made. Its log goes where the test's errors go."""

    def __init__(self, config, folder, address="127.0.0.1:0"):
        path = pathlib.Path(folder) / "heed.textproto"
        path.write_text(config)
        self.process = subprocess.Popen([HEED, "serve", f"--config={path}", f"--address={address}",
                                         "--metrics_address=127.0.0.1:0"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        self.address, self.metrics_address = self.line("listening on "), self.line("metrics on ")

    def line(self, begin):
        for line in self.process.stdout:
            if line.startswith(begin):
                return line.removeprefix(begin).strip()
        raise AssertionError(f"the server has ended with {self.process.wait()}")

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=30) as answer:
            return answer.read().decode()

    def sum(self, family, *labels):
        """Over all lines of the family with these labels, each as it stands there: code="OK"."""
        lines = re.findall(rf"^{family}(?:\{{(.*)\}})? (\S+)$", self.metrics(), re.MULTILINE)
        return sum(float(value) for found, value in lines if all(label in found for label in labels))

    def drain(self):
        self.process.send_signal(signal.SIGTERM)

    def end(self):
        """Its exit status, after a drain if it still runs."""
        if self.process.poll() is None:
            self.drain()
        try:
            self.process.communicate(timeout=120)
        finally:
            self.process.kill()
        return self.process.returncode
