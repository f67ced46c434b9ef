"""`heed chat` as a program that a signal meets: Ctrl-C ends the answer that is being shown, and the conversation goes on."""
import json
import signal
import subprocess
import tempfile
import unittest

from served import HEED, ROOT, Served, build

CONFIG = (f'models {{ name: "writer" folder: "{ROOT / "tests/golden/walks/decoder"}" }} '
          'shutdown { delay_seconds: 0 }')


class Conversation:
    """Whose answers are long: the likeliest tokens of a small model, without an end."""

    def __init__(self, address):
        self.process = subprocess.Popen([HEED, "chat", f"--address={address}", "--temperature=0", "--max_tokens=30000", "--json"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, message):
        self.process.stdin.write(message + "\n")
        self.process.stdin.flush()

    def until(self, kind):
        """Reads events up to the next of this kind; what kinds came before."""
        before = []
        for line in self.process.stdout:
            event, = set(json.loads(line)) - {"input", "sample"}
            if event == kind:
                return before
            before.append(event)
        raise AssertionError(f"no more {kind}, and the program has ended with {self.process.wait(timeout=60)}")

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)


class Chat(unittest.TestCase):
    def setUp(self):
        build()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.server = Served(CONFIG, folder.name)
        self.addCleanup(self.server.end)

    def test_ctrl_c_ends_the_answer_and_not_the_conversation(self):
        chat = Conversation(self.server.address)
        self.addCleanup(chat.process.kill)
        for message in ("Good morning!", "And you?"):
            chat.say(message)
            self.assertNotIn("finished", chat.until("started"), "the answer before was interrupted")
            chat.until("piece")
            chat.interrupt()
        chat.process.communicate(timeout=60)
        self.assertEqual(chat.process.returncode, 0)


if __name__ == "__main__":
    unittest.main()
