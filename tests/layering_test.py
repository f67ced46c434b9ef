"""Dependencies point one way: reads every #include and holds the order of the folders (DESIGN.md, sections 3 and 4)."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
OURS = ("engine", "server", "client")

# Each folder, and those it may include beside itself.
BASE = {"engine/base"}
TENSOR = BASE | {"engine/tensor"}
OPS = TENSOR | {"engine/ops"}
WEIGHTS = OPS | {"engine/weights"}
ATTENTION = WEIGHTS | {"engine/attention"}
BLOCKS = ATTENTION | {"engine/blocks"}
TEXT = WEIGHTS | {"engine/text"}
TEMPLATES = TEXT | {"engine/templates"}
IMAGES = BASE | {"engine/images"}
FAMILIES = WEIGHTS | {"engine/families"}
MODELS = BLOCKS | FAMILIES | TEXT | {"engine/models"}
GENERATION = MODELS | {"engine/generation"}
SERVER = GENERATION | IMAGES | TEMPLATES | {"server"}
JOBS = SERVER | {"server/jobs"}
CONFIG = SERVER | {"server/config", "proto"}
OBSERVATION = SERVER | {"server/observation"}
TRANSPORT = SERVER | {"server/transport", "proto"}
API = JOBS | CONFIG | OBSERVATION | TRANSPORT | {"server/api"}
SERVICE = API | {"server/service"}
CLIENT = BASE | {"client", "proto"}
MAY_INCLUDE = {
    "engine/base": BASE,
    "engine/tensor": TENSOR,
    "engine/ops": OPS,
    "engine/weights": WEIGHTS,
    "engine/attention": ATTENTION,
    "engine/blocks": BLOCKS,
    "engine/families": FAMILIES,
    "engine/models": MODELS,
    "engine/text": TEXT,
    "engine/templates": TEMPLATES,
    "engine/images": IMAGES,
    "engine/generation": GENERATION,
    "server": SERVER,
    "server/jobs": JOBS,
    "server/config": CONFIG,
    "server/observation": OBSERVATION,
    "server/transport": TRANSPORT,
    "server/api": API,
    "server/service": SERVICE,
    "client": CLIENT,
    "client/cli": CLIENT | SERVICE | {"client/cli"},
}

# Libraries that only these folders may include, by the start of their headers' names.
SPEAKS_GRPC = {"server/transport", "server/api", "server/service", "client", "client/cli"}
SPEAKS_PROTOBUF = SPEAKS_GRPC | {"server/config"}
ONLY_IN = {
    "oneapi/": {"engine/ops"},
    "dnnl": {"engine/ops"},
    "hwy/": {"engine/ops"},
    "grpc": SPEAKS_GRPC,
    "google/protobuf/": SPEAKS_PROTOBUF,
    "opentelemetry/": {"server/observation"},
    "prometheus/": {"server/observation", "server/service"},
    "utf8proc": {"engine/text"},
    "pcre2": {"engine/text"},
    "png.h": {"engine/images"},
    "jpeglib": {"engine/images"},
    "openssl/": {"engine/base", "client"},
}


def includes():
    """(file, folder, what it includes) of all sources."""
    for top in OURS:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".cc", ".h", ".def"):
                name = path.relative_to(ROOT)
                for header in INCLUDE.findall(path.read_text()):
                    yield str(name), str(name.parent), header


def folder_of(header):
    """Our folder that the header lies in; "proto" for what is generated; None for libraries."""
    if re.search(r"\.pb\.h$", header) and not header.startswith("google/"):
        return "proto"
    folder = header.rpartition("/")[0]
    return folder if folder.startswith(OURS) and (ROOT / folder).is_dir() else None


class Layering(unittest.TestCase):
    def test_every_folder_has_its_place(self):
        self.assertEqual({folder for _, folder, _ in includes()} - set(MAY_INCLUDE), set())

    def test_folders_include_only_what_comes_before_them(self):
        wrong = [f"{name} includes {header}" for name, folder, header in includes()
                 if folder_of(header) and folder_of(header) not in MAY_INCLUDE.get(folder, set())]
        self.assertEqual(wrong, [])

    def test_libraries_stay_in_their_folders(self):
        wrong = [f"{name} includes {header}" for name, folder, header in includes() if folder_of(header) is None
                 for start, folders in ONLY_IN.items() if header.startswith(start) and folder not in folders]
        self.assertEqual(wrong, [])

    def test_our_headers_are_included_from_the_top_of_the_tree(self):
        wrong = [f"{name} includes {header}" for name, _, header in includes()
                 if folder_of(header) is None and (ROOT / name).parent.joinpath(header).exists()]
        self.assertEqual(wrong, [])

    def test_locks_and_containers_are_the_standard_library_s(self):
        wrong = [f"{name} includes {header}" for name, _, header in includes()
                 if header.startswith(("absl/container/", "absl/synchronization/"))]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
