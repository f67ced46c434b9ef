"""The API only grows: everything in proto/descriptors.txt is still there, and everything that is there is in it.

The file lists the descriptor set of proto/, one line an element. After an addition:
    ./dev shell python3 tests/proto_test.py --update
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from google.protobuf import descriptor_pb2

PROTO = pathlib.Path(__file__).resolve().parent.parent / "proto"
COMMITTED = PROTO / "descriptors.txt"
LABELS = {1: "optional", 2: "required", 3: "repeated"}


def descriptor_set():
    files = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", f"-I{PROTO}", f"--descriptor_set_out={out.name}", *files], check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read())


def field_type(field):
    if field.type_name:
        return field.type_name.lstrip(".")
    return descriptor_pb2.FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def of_message(message, scope):
    name = f"{scope}.{message.name}"
    yield f"message {name}"
    for field in message.field:
        oneof = f" in {message.oneof_decl[field.oneof_index].name}" if field.HasField("oneof_index") else ""
        yield f"field {name}.{field.name} = {field.number}: {LABELS[field.label]} {field_type(field)}{oneof}"
    for taken in message.reserved_range:
        yield f"reserved {name} {taken.start} to {taken.end - 1}"
    for nested in message.nested_type:
        yield from of_message(nested, name)
    for enum in message.enum_type:
        yield from of_enum(enum, name)


def of_enum(enum, scope):
    for value in enum.value:
        yield f"enum {scope}.{enum.name}.{value.name} = {value.number}"


def of_service(service, scope):
    for method in service.method:
        takes = "stream " * method.client_streaming + method.input_type.lstrip(".")
        gives = "stream " * method.server_streaming + method.output_type.lstrip(".")
        yield f"rpc {scope}.{service.name}.{method.name}({takes}) returns ({gives})"


def elements():
    for file in descriptor_set().file:
        for service in file.service:
            yield from of_service(service, file.package)
        for message in file.message_type:
            yield from of_message(message, file.package)
        for enum in file.enum_type:
            yield from of_enum(enum, file.package)


def gone(committed, now):
    now = set(now)
    return [line for line in committed if line not in now]


class Proto(unittest.TestCase):
    def test_nothing_that_was_promised_has_changed_or_gone(self):
        self.assertEqual(gone(COMMITTED.read_text().splitlines(), elements()), [])

    def test_everything_there_is_has_been_promised(self):
        self.assertEqual(gone(elements(), COMMITTED.read_text().splitlines()), [])

    def test_a_renumbered_a_retyped_and_a_missing_field_are_noticed(self):
        promised = ["field M.x = 1: optional int32", "field M.y = 2: optional bytes", "field M.z = 3: optional bool"]
        now = ["field M.x = 4: optional int32", "field M.y = 2: optional string"]
        self.assertEqual(gone(promised, now), promised)


def update():
    now = list(elements())
    lost = gone(COMMITTED.read_text().splitlines() if COMMITTED.exists() else [], now)
    if lost:
        sys.exit("the API only grows; these are gone:\n" + "\n".join(lost))
    COMMITTED.write_text("\n".join(now) + "\n")


if __name__ == "__main__":
    update() if sys.argv[1:] == ["--update"] else unittest.main()
