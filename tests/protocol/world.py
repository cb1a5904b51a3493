"""A whole deployment in one thread, on true time that only tests move; and what can go wrong in it."""

from collections.abc import Callable
from itertools import count
from random import Random

from kvlease.registry.rules import Rules
from kvlease.registry.value import Value
from kvlease.router.engine import EngineKey
from kvlease.router.ticket import Terms, TicketKey
from kvlease.sim.wire import Wire
from tests.protocol.calls import Hosts
from tests.protocol.engine import Engine
from tests.protocol.gateway import TENANT, Gateway, Tokens, Turn
from tests.protocol.journal import Journal
from tests.protocol.laws import Laws
from tests.protocol.network import Network
from tests.protocol.services import REGISTRY, ROUTER, TICKET_KEY, Registry, Router
from tests.protocol.timeline import Process, Rate, Timeline

RATES = (Rate(0.0, 1.0), Rate(1_000_000.0, 0.999), Rate(5_555.5, 1.001), Rate(77.0, 1.0))
ROLES = {"p0": "prefill", "d0": "decode", "d1": "decode"}
BLOCKS = {"prefill": 25, "decode": 21}
LIFETIME = 3600.0


class Violation(AssertionError):
    """Something happened that must not."""


class World:
    """A registry, a router, a gateway and engines. An engine that was replaced may still live, under the same name."""

    def __init__(self, seed: int, rules: Rules, value: Callable[[], Value]) -> None:
        """Draws delays and clocks from a seed."""
        self.rules, self._value = rules, value
        self.timeline = Timeline()
        self.network = Network(self.timeline, Random(seed))
        self.hosts = Hosts(self.network)
        self.laws = Laws(self)
        self.journal = Journal()
        self.by_incarnation: dict[str, Engine] = {}
        """Engines that live."""
        self.engines: dict[str, Engine] = {}
        """Those that listen, by name."""
        self.registry: Registry | None = None
        self.router: Router | None = None
        self._names = count()
        self._rates = Random(seed)
        self._wire = Wire()
        self._key = TicketKey(TICKET_KEY)
        self.start_registry()
        self.start_router()
        self.gateway = Gateway(self._process("gateway"), self.hosts, self.engines.get)
        for name in ROLES:
            self.start_engine(name)
        self.timeline.after = self.laws.check

    def run(self, seconds: float) -> None:
        """Lets time pass. Raises Violation."""
        self.timeline.run(self.timeline.now + seconds)

    def violation(self, text: str) -> Violation:
        """Returns what to raise, with the last that happened."""
        violation = Violation(text)
        violation.add_note(f"{self.journal}\n{self.timeline.now:9.3f} {text}")
        return violation

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Lets something happen after so long."""
        self.timeline.at(self.timeline.now + seconds, act)

    # -- what goes on

    def turn(
        self, conversation_id: str, prompt: Tokens, decode: Engine, prefill: Engine | None, *, tools: bool = False
    ) -> Turn:
        """A client sends a prompt."""
        terms = Terms(
            ticket_id=f"k{next(self._names)}",
            tenant=TENANT,
            conversation_id=conversation_id,
            prefill=_key_of(prefill) if prefill else None,
            decode=_key_of(decode),
            base_generation=0,
            lifetime=LIFETIME,
        )
        turn = Turn(terms.ticket_id, conversation_id, prompt, self._key.seal(terms), decode, prefill, tools)
        self.gateway.begin(turn)
        return turn

    # -- what goes wrong

    def start_registry(self) -> None:
        """Starts an empty registry, if there is none."""
        if self.registry is None:
            self.registry = Registry(self._process(REGISTRY), self.hosts, self.rules, self._value(), self._names)
            self.registry.server.heard = self.laws.heard

    def kill_registry(self) -> None:
        """Ends the registry, and what it knew."""
        if self.registry is not None:
            self.registry.server.kill()
            self.registry = None

    def start_router(self) -> None:
        """Starts a router, if there is none."""
        if self.router is None:
            self.router = Router(self._process(ROUTER), self.hosts)
            self.router.server.heard = self.laws.heard

    def kill_router(self) -> None:
        """Ends the router."""
        if self.router is not None:
            self.router.server.kill()
            self.router = None

    def start_engine(self, name: str) -> None:
        """Starts an engine anew. One that still lives under its name listens no more, and goes on."""
        role = ROLES[name]
        engine = Engine(self._process(name), self.hosts, self._wire, role, BLOCKS[role], self._names)
        self.engines[name] = self.by_incarnation[engine.ref.incarnation] = engine
        engine.start()

    def kill_engine(self, engine: Engine) -> None:
        """Ends an engine, if it still lives, and its connections."""
        if self.by_incarnation.pop(engine.ref.incarnation, None) is None:
            return
        if self.engines.get(engine.process.name) is engine:
            del self.engines[engine.process.name]
        engine.kill()
        self.gateway.lost(engine)

    def heal(self) -> None:
        """Ends all that goes wrong: everybody is there once, runs, and is heard."""
        self.network.clear()
        for process in self.timeline.processes:
            process.resume(mail_first=True)
        for engine in tuple(self.by_incarnation.values()):
            engine.slow = 0.0
            engine.slow_reads(0.0)
            if self.engines.get(engine.process.name) is not engine:
                self.kill_engine(engine)
        self.start_registry()
        self.start_router()
        for name in ROLES.keys() - self.engines.keys():
            self.start_engine(name)

    def close(self) -> None:
        """Ends everything."""
        for process in tuple(self.timeline.processes):
            process.kill()

    def _process(self, name: str) -> Process:
        return Process(self.timeline, name, self._rates.choice(RATES))


def _key_of(engine: Engine) -> EngineKey:
    return EngineKey(engine.ref.engine_id, engine.ref.incarnation)
