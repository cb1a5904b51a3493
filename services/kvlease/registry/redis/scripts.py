"""The operations as scripts: the rules of leasing around the few lines that each of them is."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha1, sha256
from importlib.resources import files

from kvlease.registry.rules import Rules

SERVER_TIME = "local t = call('TIME') return tonumber(t[1]) + tonumber(t[2]) / 1e6"
"""The body of the function that gives the time. Tests have another one."""
PARTS = (
    "books", "ledger", "session", "chain", "value", "life", "renewals", "grants", "announcements", "claims", "endings",
    "sessions", "turns", "shown", "run",
)  # fmt: skip
POLICIES = ("recent", "return")
KEPT_BEYOND = 60.0
"""How much longer than anything lives, in seconds, it is kept: nothing is ever needed that expired."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the name that the server has for it."""

    text: str
    sha: str


@dataclass(frozen=True, slots=True)
class Scripts:
    """Those of one set of rules."""

    arrive: Script
    operations: Mapping[str, Script]


def build(rules: Rules, policy: str, *, clock: str = SERVER_TIME) -> Scripts:
    """Puts the scripts together. Raises ValueError for a value policy that is not there in Lua."""
    if policy not in POLICIES:
        known = ", ".join(POLICIES)
        raise ValueError(f"the value policy {policy!r} needs the memory store; a shared store has {known}")
    lua = files(__package__) / "lua"
    head = _head(rules, policy, clock)
    body = "\n".join((lua / f"{part}.lua").read_text() for part in PARTS)
    files_of = sorted((lua / "operations").iterdir(), key=lambda file: file.name)
    operations = {file.name.removesuffix(".lua"): file.read_text() for file in files_of}
    all_of_it = "".join((head, body, *operations.values()))
    head += f"local RULES = '{sha256(all_of_it.encode()).hexdigest()}'\n"  # tells these from others, or older ones
    return Scripts(
        _script(head, (lua / "arrive.lua").read_text()),
        {name: _script(head, body, operation) for name, operation in operations.items()},
    )


def _head(rules: Rules, policy: str, clock: str) -> str:
    numbers = asdict(rules)
    numbers |= numbers.pop("timing")
    table = ", ".join(f"{name} = {number!r}" for name, number in numbers.items())
    longest = max(rules.longest_life, rules.turn_memory, rules.tombstone) + rules.timing.hold + KEPT_BEYOND
    return f"""\
local rules = {{{table}}}
local KEEP, POLICY = {round(longest * 1000)}, '{policy}'
local function clock() local call = redis.call {clock} end
"""


def _script(*parts: str) -> Script:
    text = "\n".join(parts)
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
