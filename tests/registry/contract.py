"""The rules that every store keeps, told by what its callers see.

A store's own test file gives the fixture `make` (rules -> World) and subclasses each class below. Nothing here knows
what is behind a store.
"""

from tests.registry.contract_claims import ClaimContract
from tests.registry.contract_grants import GrantContract
from tests.registry.contract_lists import ListContract
from tests.registry.contract_renewals import RenewalContract
from tests.registry.contract_restarts import RestartContract
from tests.registry.contract_sessions import SessionContract
from tests.registry.contract_turns import TurnContract
from tests.registry.contract_watch import WatchContract

__all__ = [
    "ClaimContract",
    "GrantContract",
    "ListContract",
    "RenewalContract",
    "RestartContract",
    "SessionContract",
    "TurnContract",
    "WatchContract",
]
