"""A LangGraph agent with a slow tool: the graph's thread is the conversation, held for as long as the graph runs.

    kvlease up --engines sim --no-prefill-prefix-caching
    python examples/langgraph_agent.py

Needs `langgraph`, `openai` and kvlease. Real vLLM calls tools only with a model that can, and when it is started with
`--enable-auto-tool-choice --tool-call-parser ...`; simulated engines always do.
"""

import argparse
import operator
import os
import time
from typing import Annotated, Any, Literal, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from openai import OpenAI

from kvlease.client.lengths import seconds
from kvlease.client.openai import with_conversation
from kvlease.client.sync import Client

INSTRUCTIONS = "You are a careful assistant. You look things up before you answer, and say where you looked. " * 12
LOOK: Any = {
    "type": "function",
    "function": {"name": "look", "description": "Looks something up.", "parameters": {"type": "object"}},
}


class State(TypedDict):
    """What the nodes share: the history, which only grows."""

    messages: Annotated[list[dict[str, Any]], operator.add]


class Agent:
    """The nodes."""

    def __init__(self, openai: OpenAI, model: str, *, tool_time: float, lookups: int) -> None:
        self._openai = openai
        self._model = model
        self._tool_time = tool_time
        self._lookups = lookups

    def think(self, state: State, config: RunnableConfig) -> State:
        """Asks the model, in the conversation that the graph's thread names."""
        talk = with_conversation(self._openai, config["configurable"]["thread_id"])
        done = sum(message["role"] == "tool" for message in state["messages"])
        messages: list[Any] = state["messages"]
        answer = talk.chat.completions.create(
            model=self._model,
            messages=messages,
            tools=[LOOK],
            tool_choice="required" if done < self._lookups else "none",
            max_tokens=128,
        )
        usage = answer.usage
        cached = usage.prompt_tokens_details.cached_tokens if usage and usage.prompt_tokens_details else 0
        print(f"turn: {usage.prompt_tokens if usage else '?'} tokens of prompt, {cached} of them not computed")
        return {"messages": [answer.choices[0].message.model_dump(exclude_none=True)]}

    def look(self, state: State) -> State:
        """Answers the model's calls, slowly."""
        time.sleep(self._tool_time)
        calls = state["messages"][-1]["tool_calls"]
        return {"messages": [{"role": "tool", "tool_call_id": call["id"], "content": "nothing"} for call in calls]}

    def next(self, state: State) -> Literal["look", "__end__"]:
        """Goes on for as long as the model calls tools."""
        return "look" if state["messages"][-1].get("tool_calls") else "__end__"


def main() -> None:
    parser = argparse.ArgumentParser(description="A LangGraph agent with a slow tool.")
    parser.add_argument("--gateway", default="http://127.0.0.1:8440")
    parser.add_argument("--registry", default=os.environ.get("KVLEASE_REGISTRY", "127.0.0.1:7440"))
    parser.add_argument("--model", default="kvlease-tiny")
    parser.add_argument("--thread", default="langgraph-agent")
    parser.add_argument("--tool-time", type=seconds, default="2s")
    parser.add_argument("--lookups", type=int, default=2)
    args = parser.parse_args()

    with (
        OpenAI(base_url=f"{args.gateway}/v1", api_key="-") as openai,
        Client(registry=args.registry) as client,
        client.conversation(args.thread, end_on_exit=True) as conversation,
    ):
        agent = Agent(openai, args.model, tool_time=args.tool_time, lookups=args.lookups)
        graph = StateGraph(State)
        graph.add_node("think", agent.think)
        graph.add_node("look", agent.look)
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", agent.next)
        graph.add_edge("look", "think")
        history: list[dict[str, Any]] = [
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": "How far is the moon?"},
        ]
        graph.compile().invoke({"messages": history}, {"configurable": {"thread_id": args.thread}})
        print(f"done, KV {'kept' if conversation.held else 'lost'} until now")


if __name__ == "__main__":
    main()
