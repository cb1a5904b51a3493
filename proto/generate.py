# /// script
# requires-python = ">=3.11"
# dependencies = ["grpcio-tools==1.71.2", "mypy-protobuf==3.7.0", "setuptools<81"]
# ///
"""Generates the Python stubs beside the .proto files, or into another folder: generate.py [OUT]."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent


def main(out: Path = ROOT) -> int:
    """Runs protoc over every file, and the gRPC plugins over those that define a service."""
    from importlib.resources import files  # noqa: PLC0415 - only where grpcio-tools is installed

    from grpc_tools import protoc  # noqa: PLC0415

    protos = sorted(ROOT.glob("kvlease/*/*.proto"))
    services = [p for p in protos if "\nservice " in p.read_text()]
    plugins = [
        f"--plugin={name}={Path(sys.executable).parent / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")
    ]
    include = [f"-I{ROOT}", f"-I{files('grpc_tools') / '_proto'}", *plugins]
    messages = protoc.main(["protoc", *include, f"--python_out={out}", f"--mypy_out=quiet:{out}", *map(str, protos)])
    stubs = protoc.main(
        ["protoc", *include, f"--grpc_python_out={out}", f"--mypy_grpc_out=quiet:{out}", *map(str, services)]
    )
    return int(messages or stubs)


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))
