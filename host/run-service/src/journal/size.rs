//! About how many bytes an event takes up in memory.

use agent_core::words::{
    ClientFunction, Event, Message, Options, ReceiptDetail, ToolCall, ToolReceipt, Verdict, Wait,
};
use json_schema::{ENTRY_BYTES, FIRST_ENTRY_BYTES};
use serde_json::Value;

/// What an event weighs besides its texts.
const BASE: usize = 200;

/// The texts of an event and a little for the rest.
pub(super) fn of(event: &Event) -> usize {
    let texts = match event {
        Event::Started { task, tools } => {
            let texts = task.input.len() + of_text(task.instructions.as_ref()) + tools.len();
            let versions = of_texts(task.versions.keys()) + of_texts(task.versions.values());
            texts + versions + of_options(&task.options)
        }
        Event::ModelReplied { reply, output_fault, .. } => {
            let calls: usize = reply.tool_calls.iter().map(of_call).sum();
            reply.content.len() + of_text(output_fault.as_ref()) + calls
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

fn of_options(options: &Options) -> usize {
    let Options { tools, history, functions, rules, call, .. } = options;
    let messages: usize = history.iter().map(of_message).sum();
    let functions: usize = functions.iter().map(of_function).sum();
    let schema = rules.output.as_ref().and_then(|format| format.schema.as_ref()).map_or(0, of_value);
    let names = of_texts(tools.iter().flatten()) + of_texts(&rules.stop);
    messages + functions + schema + names + call.as_ref().map_or(0, of_call)
}

fn of_function(function: &ClientFunction) -> usize {
    let ClientFunction { name, description, parameters } = function;
    name.len() + description.len() + of_value(parameters)
}

fn of_wait(wait: &Wait) -> usize {
    let Wait { id, shown, deciders, child, .. } = wait;
    let named = [&deciders.users, &deciders.tiers, &deciders.roles].into_iter().flatten();
    let within = wait.within.as_ref().map_or(0, |within| within.tool.len());
    let texts = id.len() + within + shown.tool.len() + shown.component.len() + shown.policy.len();
    let names = of_texts(named) + of_texts(child.iter().flat_map(|child| &child.tools));
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
    let listed = of_texts(refusals.iter().chain(secrets));
    let hosts = exchanges.iter().map(|exchange| {
        let texts = exchange.scheme.len() + exchange.host.len() + of_text(exchange.address.as_ref());
        size_of_val(exchange) + texts
    });
    size_of::<ReceiptDetail>() + words + listed + hosts.sum::<usize>()
}

fn of_text(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

fn of_texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> usize {
    texts.into_iter().map(|text| size_of::<String>() + text.len()).sum()
}

fn of_call(call: &ToolCall) -> usize {
    call.id.len() + call.name.len() + of_value(&call.arguments)
}

fn of_value(value: &Value) -> usize {
    let within = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(parts) => parts.iter().map(of_value).sum(),
        Value::Object(members) => {
            let others = members.len().saturating_sub(1);
            let nodes = if members.is_empty() { 0 } else { FIRST_ENTRY_BYTES + others * ENTRY_BYTES };
            // Each part stands in a node.
            let parts = members.iter().map(|(name, part)| name.len() + of_value(part) - size_of::<Value>());
            nodes + parts.sum::<usize>()
        }
    };
    size_of::<Value>() + within
}

#[cfg(test)]
mod tests {
    use agent_core::testing::{says, task};
    use agent_core::words::{Exchange, OutputFormat, ReplyRules, Task, ToolOutcome, ToolReturn};
    use serde_json::json;

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

    #[test]
    fn whatever_a_caller_chooses_and_an_output_lacks_counts() {
        let long = || "x".repeat(1_000);
        let begun = |task| of(&Event::Started { task, tools: String::new() });
        let plain = || begun(task("hi"));
        let chosen = |options| begun(Task { options, ..task("hi") }) - plain();
        // Eight bytes of the body each, and a node of a tree in memory.
        let schema = Some(json!({ "enum": vec![json!({ "": 0 }); 1_000] }));
        let output = Some(OutputFormat { name: "answer".into(), schema });
        let rules = |rules| Options { rules, ..Options::default() };
        let of_schema = chosen(rules(ReplyRules { output, ..ReplyRules::default() }));
        assert!((640_000..700_000).contains(&of_schema), "{of_schema}");
        for added in [
            chosen(rules(ReplyRules { stop: vec![long()], ..ReplyRules::default() })),
            chosen(Options { tools: Some(vec![long()]), ..Options::default() }),
            begun(Task { versions: [(long(), String::new())].into(), ..task("hi") }) - plain(),
            of(&Event::ModelReplied {
                reply: says(""),
                input_tokens: None,
                last_by: None,
                output_fault: Some(long()),
            }) - of(&Event::from(says(""))),
        ] {
            assert!((1_000..1_100).contains(&added), "{added}");
        }
    }
}
