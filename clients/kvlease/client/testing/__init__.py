"""Fakes for tests of programs that use kvlease: small working servers on 127.0.0.1, in this process.

    with FakeRegistry() as registry, FakeRouter(registry) as router:
        registry.add_engine("engine-0", model="my-model")
        client = Client(registry=registry.address, router=router.address)
        ...
        registry.fail_next(Unavailable("down"))
        assert registry.calls[-1].method == "RenewLeases"

They serve what applications call. Leases live by the clock that is handed in; nothing holds KV.
"""

from kvlease.client.testing.registry import FakeRegistry
from kvlease.client.testing.router import FakeRouter
from kvlease.client.testing.server import Call, FakeServer, Streaming, Unary

__all__ = ["Call", "FakeRegistry", "FakeRouter", "FakeServer", "Streaming", "Unary"]
