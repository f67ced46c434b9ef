"""docs/survey.md has every attention of the survey and every architecture that can be served, with what its last run measured."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/survey.md"
# Of published checkpoints, and not of the survey "Efficient Transformers" (Tay et al. 2022).
NOT_SURVEYED = {"disentangled", "mamba2", "gated_delta", "lightning", "short_convolution", "mamba",
                "rg_lru", "latent", "side_by_side", "kimi_delta", "rwkv", "rwkv_channel", "transient_global", "yoso", "fourier", "relative_segments",
                "twice-read-encoder"}


def names(table, macro):
    """Of a .def file's lines."""
    return re.findall(rf'^{macro}\("?([\w-]+)"?,', (ROOT / table).read_text(), re.MULTILINE)


class SurveyDocument(unittest.TestCase):
    def test_has_a_row_for_every_attention(self):
        rows = re.findall(r"^\| `([^`]+)`", PAGE.read_text(), re.MULTILINE)
        attentions = {re.split(r"[, ]", row)[0] for row in rows}
        found = names("engine/attention/variants.def", "VARIANT")
        self.assertGreater(len(found), 20)
        self.assertEqual([name for name in found if name not in attentions | NOT_SURVEYED], [])

    def test_speaks_of_every_architecture(self):
        page = PAGE.read_text()
        found = names("engine/models/stacks.def", "STACK")
        self.assertGreater(len(found), 8)
        self.assertEqual([name for name in found if name not in page and name not in NOT_SURVEYED], [])

    def test_shows_its_pictures(self):
        pictures = re.findall(r"\]\((survey-[\w-]+\.svg)\)", PAGE.read_text())
        self.assertGreater(len(pictures), 3)
        self.assertEqual([name for name in pictures if not (ROOT / "docs" / name).exists()], [])


if __name__ == "__main__":
    unittest.main()
