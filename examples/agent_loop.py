"""An agent whose tool takes long: its conversation's KV stays for as long as the tool runs.

    kvlease up --engines sim --no-prefill-prefix-caching      # or cpu, or engines of your own
    python examples/agent_loop.py --tool-time 90s
    python examples/agent_loop.py --tool-time 90s --silent    # the same, without holding: the KV goes meanwhile

Needs `kvlease[client]`. Turns go through router and engines without the gateway.
"""

import argparse
import asyncio
import os
import time
from typing import Any

from kvlease.client.aio import Client
from kvlease.client.chat import Answer
from kvlease.client.conversation import Conversation
from kvlease.client.lengths import seconds

INSTRUCTIONS = "You are a careful assistant. You look things up before you answer, and say where you looked. " * 12


def look_up(question: str, *, takes: float) -> str:
    """The tool. It blocks its thread, as tools do."""
    time.sleep(takes)
    return f"nothing is known about {question!r}"


class Agent:
    """A history, and the two things that make it longer."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": "How far is the moon, and how far was it last year?"},
        ]

    async def ask(self, conversation: Conversation[Answer]) -> None:
        """One turn of the model. Its message goes into the history as it came, so that its KV fits the next turn."""
        answer = conversation.chat(self.messages, model=self.model, max_tokens=32)
        async for _ in answer:
            pass  # or show chunk.text
        self.messages.append(answer.message)
        report = answer.report
        if report is None:
            print("turn: decode computed the prompt by itself")
        else:
            print(
                f"turn: {report.prompt_tokens} tokens of prompt: {report.reused_tokens} reused, "
                f"{report.local_tokens} in prefill's cache, {report.computed_tokens} computed {report.miss_reason}"
            )

    async def use_tool(self, takes: float) -> None:
        """One turn of the tool."""
        found = await asyncio.to_thread(look_up, "the moon", takes=takes)
        self.messages.append({"role": "user", "content": f"The tool says: {found}. Go on."})


async def hold(client: Client, agent: Agent, name: str, *, turns: int, takes: float) -> None:
    """Keeps the conversation until the last answer, then frees it."""
    async with client.conversation(name, end_on_exit=True) as conversation:
        for _ in range(turns - 1):
            await agent.ask(conversation)
            await agent.use_tool(takes)
            print(f"tool: done, KV {'kept' if conversation.held else 'lost'}")
        await agent.ask(conversation)


async def be_silent(client: Client, agent: Agent, name: str, *, turns: int, takes: float) -> None:
    """Holds it while it asks, not while the tool runs: the KV goes when the lease's own time to live is over.

    By default it would stay for a minute after it was held; a second adds nothing to what the registry gives.
    """
    for turn in range(turns):
        if turn:
            await agent.use_tool(takes)
            leases = await client.list_leases(conversation_id=name)
            print(f"tool: done, KV {'kept' if leases else 'lost'}")
        async with client.conversation(name, ttl=1.0) as conversation:
            await agent.ask(conversation)


async def main() -> None:
    parser = argparse.ArgumentParser(description="An agent whose tool takes long.")
    parser.add_argument("--registry", default=os.environ.get("KVLEASE_REGISTRY", "127.0.0.1:7440"))
    parser.add_argument("--router", default=os.environ.get("KVLEASE_ROUTER", "127.0.0.1:7441"))
    parser.add_argument("--model", default="kvlease-tiny")
    parser.add_argument("--conversation", default="agent-loop")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--tool-time", type=seconds, default="5s")
    parser.add_argument("--silent", action="store_true", help="do not hold the conversation while the tool runs")
    args = parser.parse_args()
    async with Client(registry=args.registry, router=args.router) as client:
        run = be_silent if args.silent else hold
        await run(client, Agent(args.model), args.conversation, turns=args.turns, takes=args.tool_time)


if __name__ == "__main__":
    asyncio.run(main())
