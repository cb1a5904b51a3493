"""The `openai` package, through the gateway; kvlease holds the conversation while a tool runs.

    kvlease up --engines sim --no-prefill-prefix-caching
    python examples/openai_package.py

Needs `openai` and kvlease.
"""

import argparse
import os
import time
from typing import Any

from openai import OpenAI

from kvlease.client.lengths import seconds
from kvlease.client.openai import with_conversation
from kvlease.client.sync import Client

INSTRUCTIONS = "You are a careful assistant. You look things up before you answer, and say where you looked. " * 12


def main() -> None:
    parser = argparse.ArgumentParser(description="The openai package, with a conversation that is held.")
    parser.add_argument("--gateway", default="http://127.0.0.1:8440")
    parser.add_argument("--registry", default=os.environ.get("KVLEASE_REGISTRY", "127.0.0.1:7440"))
    parser.add_argument("--model", default="kvlease-tiny")
    parser.add_argument("--conversation", default="openai-package")
    parser.add_argument("--tool-time", type=seconds, default="2s")
    args = parser.parse_args()

    messages: list[Any] = [{"role": "system", "content": INSTRUCTIONS}]
    with (
        OpenAI(base_url=f"{args.gateway}/v1", api_key="-") as openai,
        Client(registry=args.registry) as client,
        client.conversation(args.conversation, end_on_exit=True) as conversation,
    ):
        talk = with_conversation(openai, args.conversation)
        for question in ("How far is the moon?", "And last year?"):
            messages.append({"role": "user", "content": question})
            answer = talk.chat.completions.create(model=args.model, messages=messages, max_tokens=32)
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
            usage = answer.usage
            cached = usage.prompt_tokens_details.cached_tokens if usage and usage.prompt_tokens_details else 0
            print(f"turn: {usage.prompt_tokens if usage else '?'} tokens of prompt, {cached} of them not computed")
            time.sleep(args.tool_time)  # a tool
            print(f"tool: done, KV {'kept' if conversation.held else 'not kept'}")


if __name__ == "__main__":
    main()
