"""Whatever goes wrong, in whatever order: right KV or none, nothing hung, nothing leaked, and all of it heals."""

from hypothesis import settings

from tests.protocol.machine import ProtocolMachine

ProtocolMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None, derandomize=True)
TestProtocol = ProtocolMachine.TestCase
