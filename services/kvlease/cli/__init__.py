"""The `kvlease` command. One module for each subcommand; `__main__` lists them."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC reads it on import; what it logs comes as errors too
