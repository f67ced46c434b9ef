"""A test can fail: it asserts on every way through it, or says that it skips and why. And no wall clock decides anything.

A test that returns before its first assertion passes without having tried anything: leave such cases out of its
parameters, or loops, instead. Where a machine cannot try something, GTEST_SKIP says so; the tests that may are listed.
"""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEST = re.compile(r"^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\) \{$", re.MULTILINE)
# Also by a function that asserts for several tests.
ASSERTS = re.compile(r"\b(?:ASSERT|EXPECT|ADD_FAILURE|FAIL|SUCCEED|GTEST_SKIP|Expect|Check|Refuses?)\w*\b")
RETURN = re.compile(r"\breturn;")
LAMBDA = re.compile(r"\[[^\[\]]*\]\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*(?:mutable\s*)?(?:->\s*[\w:<>]+\s*)?\{")

# A kernel that this CPU lacks, a user whom root cannot become, minutes that only `full` has.
MAY_SKIP = {"FewRows.CountAsACall", "InputFile.SaysThatItMayNotRead",
            "LongSequence.SixtyFourThousandTokensNeedNothingQuadratic"}


def closing(text, opening):
    """The place of the brace that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def without_lambdas(body):
    """A return within a lambda is not the test's."""
    while found := LAMBDA.search(body):
        body = body[:found.start()] + body[closing(body, found.end() - 1) + 1:]
    return body


def tests():
    """(suite.name, body) of every test in C++."""
    for path in sorted((ROOT / "tests").rglob("*_test.cc")):
        text = path.read_text()
        for found in TEST.finditer(text):
            end = text.find("\n}\n", found.end())
            yield f"{found.group(1)}.{found.group(2)}", text[found.end():end]


WALL_CLOCK = re.compile(r"system_clock|high_resolution_clock|absl::Now|absl::Time\b|CLOCK_REALTIME|gettimeofday|\btime\(")
# A line's time, a span's, and since when the server runs: what is shown, and decides nothing.
MAY_READ_IT = {"server/observation/log.cc", "server/observation/traces.cc", "server/api/context.h", "server/service/server.cc"}


class Rules(unittest.TestCase):
    def test_no_wall_clock_decides_anything_in_the_server(self):
        files = [path for suffix in ("*.cc", "*.h") for path in (ROOT / "server").rglob(suffix)]
        readers = {str(path.relative_to(ROOT)) for path in files if WALL_CLOCK.search(path.read_text())}
        self.assertEqual(readers, MAY_READ_IT)

    def test_there_are_tests(self):
        self.assertGreater(len(list(tests())), 500)

    def test_every_test_asserts(self):
        self.assertEqual([name for name, body in tests() if not ASSERTS.search(body)], [])

    def test_no_test_returns_before_it_asserts(self):
        wrong = []
        for name, body in tests():
            left = RETURN.search(without_lambdas(body))
            if left and not ASSERTS.search(without_lambdas(body)[:left.start()]):
                wrong.append(name)
        self.assertEqual(wrong, [])

    def test_only_tests_that_are_listed_skip(self):
        self.assertEqual({name for name, body in tests() if "GTEST_SKIP" in body} - MAY_SKIP, set())


if __name__ == "__main__":
    unittest.main()
