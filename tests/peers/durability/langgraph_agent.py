"""LangGraph: the agent as a graph of two nodes, which its server keeps a checkpoint after each of."""

from typing import Annotated, TypedDict

import agent
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    messages: Annotated[list, lambda said, more: said + more]


async def model(state: State) -> State:
    return {"messages": [await agent.ask_model(state["messages"])]}


async def tools(state: State) -> State:
    calls = state["messages"][-1]["tool_calls"]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": agent.calculate(call)} for call in calls]
    return {"messages": results}


def after_model(state: State) -> str:
    return "tools" if state["messages"][-1].get("tool_calls") else END


builder = StateGraph(State)
builder.add_node("model", model)
builder.add_node("tools", tools)
builder.add_edge(START, "model")
builder.add_conditional_edges("model", after_model, ["tools", END])
builder.add_edge("tools", "model")
graph = builder.compile()
