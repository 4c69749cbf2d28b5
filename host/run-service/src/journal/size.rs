//! About how many bytes an event takes up in memory.

use agent_core::words::{
    ClientFunction, Event, Message, ReceiptDetail, ToolCall, ToolReceipt, Verdict, Wait,
};
use serde_json::Value;

/// What an event weighs besides its texts.
const BASE: usize = 200;

/// The texts of an event and a little for the rest.
pub(super) fn of(event: &Event) -> usize {
    let texts = match event {
        Event::Started { task, tools } => {
            let history: usize = task.options.history.iter().map(of_message).sum();
            let functions: usize = task.options.functions.iter().map(of_function).sum();
            let texts = task.input.len() + of_text(task.instructions.as_ref()) + tools.len();
            texts + history + functions + task.options.call.as_ref().map_or(0, of_call)
        }
        Event::ModelReplied { reply, .. } => {
            reply.content.len() + reply.tool_calls.iter().map(of_call).sum::<usize>()
        }
        Event::ToolReturned { answer, .. } => answer.content.len() + of_receipt(&answer.receipt),
        Event::NestedStarted { name, .. } => name.len(),
        Event::NestedReturned { receipt, error, recorded, .. } => {
            let recorded = recorded.as_ref().map_or(0, |answer| answer.bytes());
            of_receipt(receipt) + of_text(error.as_ref()) + recorded
        }
        Event::RecordingStarted { seed, .. } => seed.len(),
        Event::ToolsStarted { indexes } => size_of_val(indexes.as_slice()),
        Event::Waiting { waits, .. } => waits.iter().map(of_wait).sum(),
        Event::Decided { wait, decision } => {
            let texts = wait.len() + decision.shown.len() + decision.nonce.len();
            texts + of_text(decision.by.as_ref()) + of_verdict(&decision.verdict)
        }
        Event::TakenUp { by } => by.len(),
        Event::Cancelled | Event::HandedBack => 0,
    };
    BASE + texts
}

fn of_function(function: &ClientFunction) -> usize {
    let ClientFunction { name, description, parameters } = function;
    name.len() + description.len() + of_value(parameters)
}

fn of_wait(wait: &Wait) -> usize {
    let Wait { id, shown, deciders, child, .. } = wait;
    let named = [&deciders.users, &deciders.tiers, &deciders.roles].into_iter().flatten();
    let names: usize = named.map(|name| size_of::<String>() + name.len()).sum();
    let within = wait.within.as_ref().map_or(0, |within| within.tool.len());
    let texts = id.len() + within + shown.tool.len() + shown.component.len() + shown.policy.len();
    let names = names
        + child
            .iter()
            .flat_map(|child| &child.tools)
            .map(|tool| size_of::<String>() + tool.len())
            .sum::<usize>();
    size_of::<Wait>() + texts + of_value(&shown.arguments) + wait.answer.as_ref().map_or(0, of_value) + names
}

fn of_verdict(verdict: &Verdict) -> usize {
    match verdict {
        Verdict::Approve => 0,
        Verdict::Reject { reason } => of_text(reason.as_ref()),
        Verdict::Edit { arguments } => of_value(arguments),
        Verdict::Answer { answer } => of_value(answer),
        Verdict::Ended { answer, .. } => answer.len(),
    }
}

fn of_message(message: &Message) -> usize {
    let texts = match message {
        Message::System { content } => content.len(),
        Message::User { content } => content.bytes(),
        Message::Assistant { content, tool_calls } => {
            content.len() + tool_calls.iter().map(of_call).sum::<usize>()
        }
        Message::Tool { tool_call_id, name, content } => tool_call_id.len() + name.len() + content.len(),
    };
    size_of::<Message>() + texts
}

fn of_receipt(receipt: &ToolReceipt) -> usize {
    let detail = receipt.detail.as_deref().map_or(0, of_detail);
    receipt.name.len() + of_text(receipt.component.as_ref()) + detail
}

fn of_detail(detail: &ReceiptDetail) -> usize {
    let ReceiptDetail { policy, arguments, code, cause, exchanges, refusals, secrets, .. } = detail;
    let words: usize = [policy, arguments, code, cause].into_iter().map(|text| of_text(text.as_ref())).sum();
    let listed: usize = refusals.iter().chain(secrets).map(|text| size_of::<String>() + text.len()).sum();
    let hosts = exchanges.iter().map(|exchange| {
        let texts = exchange.scheme.len() + exchange.host.len() + of_text(exchange.address.as_ref());
        size_of_val(exchange) + texts
    });
    size_of::<ReceiptDetail>() + words + listed + hosts.sum::<usize>()
}

fn of_text(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

fn of_call(call: &ToolCall) -> usize {
    call.id.len() + call.name.len() + of_value(&call.arguments)
}

fn of_value(value: &Value) -> usize {
    let within = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(parts) => parts.iter().map(of_value).sum(),
        Value::Object(members) => members.iter().map(|(name, part)| name.len() + of_value(part)).sum(),
    };
    size_of::<Value>() + within
}

#[cfg(test)]
mod tests {
    use agent_core::words::{Exchange, ToolOutcome, ToolReturn};

    use super::*;

    #[test]
    fn whatever_a_receipt_lists_counts() {
        let long = || "x".repeat(1_000);
        let plain = ToolReceipt::new("fetch", ToolOutcome::Ok);
        let exchange =
            Exchange { scheme: long(), host: long(), address: Some(long()), ..Exchange::default() };
        let detail = ReceiptDetail {
            policy: Some(long()),
            arguments: Some(long()),
            code: Some(long()),
            cause: Some(long()),
            exchanges: vec![exchange.clone(), exchange],
            refusals: vec![long()],
            secrets: vec![long()],
            ..ReceiptDetail::default()
        };
        let full = ToolReceipt {
            component: Some(long()),
            detail: Some(Box::new(detail)),
            ..ToolReceipt::new(long(), ToolOutcome::Ok)
        };
        let returned = |receipt: &ToolReceipt| Event::ToolReturned {
            index: 0,
            answer: ToolReturn { content: long(), receipt: receipt.clone() },
        };
        let nested = |receipt: &ToolReceipt| Event::NestedReturned {
            index: 0,
            number: 0,
            receipt: receipt.clone(),
            error: Some(long()),
            recorded: None,
        };
        for (small, large) in [(returned(&plain), returned(&full)), (nested(&plain), nested(&full))] {
            let added = of(&large) - of(&small);
            assert!((14_000..16_000).contains(&added), "{added}");
            assert!((1_200..1_400).contains(&of(&small)), "{}", of(&small));
        }
    }
}
