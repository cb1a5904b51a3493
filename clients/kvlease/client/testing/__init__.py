"""Fakes for tests of programs that use kvlease: small working servers on 127.0.0.1, in this process.

    with FakeRegistry() as registry, FakeRouter(registry) as router, FakeEngine(["Hi"]) as engine:
        registry.add_engine("engine-0", model="my-model", http_url=engine.url)
        with Client(registry=registry.address, router=router.address) as client:
            with client.conversation("42") as conversation:
                answer = conversation.chat([{"role": "user", "content": "Hello"}], model="my-model")
                assert [chunk.text for chunk in answer] == ["", "Hi", ""]
            registry.fail_next(Unavailable("down"))  # the next call; it is made again, and succeeds
            client.renew("42")
        assert registry.calls[-1].method == "RenewLeases"

They serve what applications call. Leases live by the clock that is handed in; nothing holds KV.
"""

from kvlease.client.testing.engine import FakeEngine
from kvlease.client.testing.registry import FakeRegistry
from kvlease.client.testing.reply import Reply
from kvlease.client.testing.router import FakeRouter
from kvlease.client.testing.server import Call, FakeServer, Streaming, Unary

__all__ = ["Call", "FakeEngine", "FakeRegistry", "FakeRouter", "FakeServer", "Reply", "Streaming", "Unary"]
