"""Reads a failed call's details as any Python client does: error_details.py PROTO_FOLDER ADDRESS."""
import subprocess
import sys
import tempfile

import grpc

proto, address = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    subprocess.run(["protoc", f"-I{proto}/google", f"--python_out={folder}", "rpc/status.proto",
                    "rpc/error_details.proto"], cwd=f"{proto}/google", check=True)
    sys.path.insert(0, folder)
    from rpc import error_details_pb2, status_pb2

call = grpc.insecure_channel(address).unary_unary("/heed.v1.Inference/Classify")
try:
    call(bytes([0x0A, 0x08, 0x0A, 0x06]) + b"nobody", timeout=20, metadata=[("x-request-id", "from-python")])
    sys.exit("the call did not fail")
except grpc.RpcError as error:
    trailers = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.code == error.code().value[0] == grpc.StatusCode.NOT_FOUND.value[0], status
    assert status.message == error.details(), status
    details = {detail.type_url.rpartition(".")[2]: detail for detail in status.details}

info, request, which = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RequestInfo()
assert details["ErrorInfo"].Unpack(info) and (info.reason, info.domain) == ("MODEL_NOT_FOUND", "heed"), info
assert details["BadRequest"].Unpack(request) and request.field_violations[0].field == "target.model", request
assert details["RequestInfo"].Unpack(which) and which.request_id == "from-python", which
