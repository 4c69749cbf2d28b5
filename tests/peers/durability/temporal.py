"""Temporal: a worker of the development server. The server takes runs and gives answers by HTTP."""

import asyncio
import json
import os
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    import agent


@activity.defn
async def ask_model(messages: list) -> dict:
    return await agent.ask_model(messages)


@activity.defn
async def calculate(call: dict) -> str:
    return agent.calculate(call)


@workflow.defn(name="agent")
class Agent:
    @workflow.run
    async def run(self, query: str) -> str:
        messages = [{"role": "user", "content": query}]
        # How a worker's death is noticed while an activity is under way. There is no default: one has to be set.
        limit = timedelta(seconds=30)
        while True:
            reply = await workflow.execute_activity(ask_model, messages, start_to_close_timeout=limit)
            messages.append(reply)
            if not reply.get("tool_calls"):
                return reply["content"]
            for call in reply["tool_calls"]:
                content = await workflow.execute_activity(calculate, call, start_to_close_timeout=limit)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


async def main() -> None:
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with Worker(client, task_queue="bench", workflows=[Agent], activities=[ask_model, calculate]):
        print(json.dumps({"event": "ready"}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
