//! Journals written out for people, as snapshots.

use std::time::Duration;

use agent_core::terminal_text::is_invisible;
use agent_core::testing::{asks_for, ended, failed, receipt_detail, says, task};
use agent_core::words::{
    ContentPart, Decision, Image, Limit, Message, Options, Principal, StopReason, ToolReturn, UserContent,
};
use serde_json::json;

use super::*;

fn started(input: &str) -> Event {
    Event::Started { task: task(input), tools: "sha256:test".into() }
}

fn receipt(name: &str, outcome: ToolOutcome) -> ToolReceipt {
    ToolReceipt {
        component: Some("c@sha256:1".into()),
        duration_ms: 0.1 + 0.2,
        ..ToolReceipt::new(name, outcome)
    }
}

fn returned(index: usize, content: &str, receipt: ToolReceipt) -> Event {
    Event::ToolReturned { index, answer: ToolReturn { content: content.into(), receipt } }
}

fn record(outcome: RunOutcome) -> RunRecord {
    let started_at = UNIX_EPOCH + Duration::from_millis(1_795_262_400_000);
    RunRecord {
        job_id: Some("7".into()),
        started_at,
        finished_at: started_at + Duration::from_millis(4_321),
        ..agent_core::testing::record("run_1", outcome)
    }
}

fn completed() -> RunRecord {
    record(ended(StopReason::Completed))
}

/// A call that reached the world, and a script that called other tools.
fn a_script() -> [Event; 9] {
    let nested = |number, name: &str, outcome, error: Option<&str>| Event::NestedReturned {
        index: 1,
        number,
        receipt: receipt(name, outcome),
        error: error.map(str::to_owned),
        recorded: None,
    };
    let calls =
        [("a", "fetch", json!({"url": "https://example.org/"})), ("b", "script", json!({"code": "…"}))];
    [
        started("what is new?"),
        Event::from(asks_for(&calls)),
        Event::ToolsStarted { indexes: vec![1] },
        nested(0, "look", ToolOutcome::Ok, None),
        returned(
            0,
            "Error: unavailable: try again",
            ToolReceipt {
                detail: Some(Box::new(receipt_detail())),
                duration_ms: 13.0,
                ..receipt("fetch", ToolOutcome::Failed)
            },
        ),
        Event::NestedStarted { index: 1, number: 1, name: "pay".into() },
        nested(1, "pay", ToolOutcome::TimedOut, Some("Error: the tool did not finish")),
        returned(1, "[1,2]", ToolReceipt { nested: 2, ..receipt("script", ToolOutcome::Ok) }),
        Event::ModelReplied {
            reply: says("nothing"),
            input_tokens: Some(9),
            last_by: Some(Limit::Tokens),
            output_fault: None,
        },
    ]
}

#[test]
fn a_run_of_one_call_says_that_no_model_was_asked() {
    let call = ToolCall { id: "c".into(), name: "pay".into(), arguments: json!({ "euros": 5 }) };
    let options = Options { call: Some(call), ..Options::default() };
    let started = Event::Started { task: Task { options, ..task("") }, tools: "sha256:test".into() };
    let events = [started, returned(0, "paid", receipt("pay", ToolOutcome::Ok))];
    insta::assert_snapshot!(timeline(&events, None), @r#"
       0  started: run_1 for user u1, without a model
              calls [0] pay {"euros":5}
       1  [0] pay: ok, 0.3 ms, c@sha256:1
              "paid"
    not ended, or its record is not written yet; 0 model calls, 0 tokens (0 read, 0 written), 1 tool call, 0.3 ms in tools
    "#);
}

#[test]
fn a_run_with_a_script_is_a_readable_text() {
    insta::assert_snapshot!(timeline(&a_script(), Some(&completed())), @r#"
    run run_1, started 2026-11-21T12:00:00.000Z, took 4.321 s, request req-1, job 7, user u1
       0  started: run_1 for user u1, with test/scripted
              "what is new?"
              at most 10 model calls and 10000 tokens, tools sha256:test
       1  model call 1: 10 tokens read, 5 written, finish tool_calls, test/scripted
              asks for [0] fetch {"url":"https://example.org/"}
              asks for [1] script {"code":"…"}
       2  begins [1] script, not to be made twice
       4  [0] fetch: failed (unavailable), 13 ms, c@sha256:1
              "Error: unavailable: try again"
              because the server closed the connection
              waited 0.05 ms, instance made in 0.2 ms, ran 12.346 ms, 1.5 MiB of memory, fuel 1000, run 2 times, from the cache, may differ by user
              https://example.org:443 at 192.0.2.1: 2 requests, 1 without a whole answer, 300 bytes sent, 4000 received
              3 requests to further hosts
              request refused: the policy does not allow http://localhost
              4 further requests refused
              secrets used: search-key
              1 value of secrets replaced in what came back
              arguments sha256:a, policy sha256:p
       7  [1] script: ok, 0.3 ms, made 2 calls, c@sha256:1
              "[1,2]"
       3      [1.0] look: ok, 0.3 ms, c@sha256:1
       5      begins [1.1] pay, not to be made twice
       6      [1.1] pay: timed_out, 0.3 ms, c@sha256:1
                  "Error: the tool did not finish"
       8  model call 2: 10 tokens read, 5 written, finish stop, test/scripted
              "nothing"
              asked to end the run in words
    completed; 2 model calls, 30 tokens (20 read, 10 written), 2 tool calls, 1 of them without a value, 2 nested calls, 13.3 ms in tools
    "#);
}

#[test]
fn a_run_that_was_killed_handed_back_and_cancelled_says_so() {
    let uncounted = ModelReply {
        usage: None,
        ..asks_for(&[("a", "script", json!({})), ("b", "script", json!({})), ("c", "look", json!({}))])
    };
    let events = [
        started("pay"),
        Event::from(uncounted),
        Event::ToolsStarted { indexes: vec![0] },
        Event::NestedStarted { index: 0, number: 0, name: "pay".into() },
        Event::TakenUp { by: "b".into() },
        returned(
            0,
            "Error: the call was interrupted",
            ToolReceipt { nested: 1, ..ToolReceipt::new("script", ToolOutcome::Interrupted) },
        ),
        Event::HandedBack,
        Event::TakenUp { by: "c".into() },
        Event::ToolsStarted { indexes: vec![1] },
        Event::NestedStarted { index: 1, number: 0, name: "pay".into() },
        Event::Cancelled,
    ];
    insta::assert_snapshot!(timeline(&events, None), @r#"
       0  started: run_1 for user u1, with test/scripted
              "pay"
              at most 10 model calls and 10000 tokens, tools sha256:test
       1  model call 1: tokens not counted, finish tool_calls, test/scripted
              asks for [0] script {}
              asks for [1] script {}
              asks for [2] look {}
       2  begins [0] script, not to be made twice
       4  taken up as b
       5  [0] script: interrupted, 0 ms, made 1 call
              "Error: the call was interrupted"
       3      begins [0.0] pay, not to be made twice
       6  handed back
       7  taken up as c
       8  begins [1] script, not to be made twice
          [1] script: no answer
       9      begins [1.0] pay, not to be made twice
      10  cancelled
    cancelled; 1 model call, 0 tokens (0 read, 0 written), 1 reply not counted, 1 tool call, 1 of them without a value, 0 ms in tools, taken up 2 times
    "#);
}

#[test]
fn an_image_is_named_and_never_shown() {
    let url = format!("data:image/png;base64,{}", "A".repeat(16_384));
    let parts = vec![
        ContentPart::Text { text: "Which?".into() },
        ContentPart::Image(Image::new(&url, None).unwrap()),
    ];
    let mut begun = started("");
    if let Event::Started { task, .. } = &mut begun {
        task.options.history = vec![Message::User { content: UserContent::of_parts(parts) }];
    }
    let text = timeline(&[begun], None);
    assert!(text.contains(r#""Which?\n[image image/png, 12 KiB]""#) && !text.contains("AAAA"), "{text}");
}

/// The record of a run that failed, with that text wherever a stranger could have put it.
fn tricky_record(trick: &str) -> RunRecord {
    RunRecord {
        id: trick.into(),
        request_id: trick.into(),
        job_id: Some(trick.into()),
        user_id: Some(trick.into()),
        ..record(failed(trick))
    }
}

#[test]
fn what_a_stranger_wrote_plays_no_tricks_on_a_terminal() {
    let trick = "a\u{1b}[2J\r\n\u{9b}31m\u{202e}b\u{200b}\u{e0041}";
    let call = [(trick, trick, json!({trick: format!("{trick}{}", "x".repeat(500))}))];
    let detail = ReceiptDetail {
        policy: Some(trick.into()),
        arguments: Some(trick.into()),
        code: Some(trick.into()),
        cause: Some(trick.into()),
        exchanges: vec![Exchange {
            scheme: trick.into(),
            host: trick.into(),
            address: Some(trick.into()),
            ..Exchange::default()
        }],
        refusals: vec![trick.into()],
        secrets: vec![trick.into()],
        ..ReceiptDetail::default()
    };
    let receipt = ToolReceipt {
        component: Some(trick.into()),
        detail: Some(Box::new(detail)),
        ..ToolReceipt::new(trick, ToolOutcome::Failed)
    };
    let mut begun = started(trick);
    if let Event::Started { task, tools } = &mut begun {
        (task.id, task.model, *tools) = (trick.into(), trick.into(), trick.into());
        task.principal = Principal::user(trick);
    }
    let reply = ModelReply { content: trick.repeat(100), model: trick.into(), ..asks_for(&call) };
    let nested = Event::NestedReturned {
        index: 0,
        number: 0,
        receipt: receipt.clone(),
        error: Some(trick.into()),
        recorded: None,
    };
    let events = [
        begun,
        Event::from(reply),
        Event::ToolsStarted { indexes: vec![0] },
        Event::NestedStarted { index: 0, number: 0, name: trick.into() },
        nested,
        returned(0, trick, receipt),
        Event::TakenUp { by: trick.into() },
    ];
    let text = timeline(&events, Some(&tricky_record(trick)));
    let steers = |char: char| (char.is_control() && char != '\n') || is_invisible(char);
    assert!(!text.contains(steers), "{text:?}");
    let lines: Vec<_> = text.lines().collect();
    assert!(!lines.iter().any(|line| line.starts_with('\u{9b}') || line.starts_with("31m")), "{text}");
    assert!(lines.iter().all(|line| line.chars().count() < 2_500), "{text}");
    assert!(text.contains("bytes more"), "{text}");
}

#[test]
fn a_run_whose_journal_is_not_kept_shows_its_record() {
    insta::assert_snapshot!(timeline(&[], Some(&completed())), @r#"
    run run_1, started 2026-11-21T12:00:00.000Z, took 4.321 s, request req-1, job 7, user u1
    completed; its journal is not kept
    "#);
    let failed = record(failed("the model call failed: no key"));
    let far = RunRecord { started_at: UNIX_EPOCH - Duration::from_secs(1), ..failed };
    insta::assert_snapshot!(timeline(&[started("hi")], Some(&far)), @r#"
    run run_1, started at an unknown time, took 1795262405.321 s, request req-1, job 7, user u1
       0  started: run_1 for user u1, with test/scripted
              "hi"
              at most 10 model calls and 10000 tokens, tools sha256:test
    failed: the model call failed: no key; 0 model calls, 0 tokens (0 read, 0 written), 0 tool calls, 0 ms in tools
    "#);
}

#[test]
fn a_run_that_waits_for_somebody_does_not_say_how_long_it_took() {
    let parked = record(RunOutcome::Running);
    let text = timeline(&[started("hi")], Some(&parked));
    assert!(text.starts_with("run run_1, started 2026-11-21T12:00:00.000Z, request req-1, job 7"), "{text}");
    let text = timeline(&[started("hi")], Some(&RunRecord { job_id: None, ..parked }));
    assert!(text.contains("took 4.321 s"), "{text}");
}

/// Whatever stands in a journal, in whatever order.
#[test]
fn a_damaged_journal_is_shown_as_well() {
    let nested = Event::NestedStarted { index: 7, number: 0, name: "pay".into() };
    let returned = returned(9, "?", receipt("add", ToolOutcome::Ok));
    let text =
        timeline(&[nested, returned, Event::ToolsStarted { indexes: vec![3] }, Event::Cancelled], None);
    assert!(text.contains("[9] ?: ok") && text.contains("[7] ?: no answer"), "{text}");
}

#[test]
fn the_tokens_of_child_runs_are_among_those_of_their_parent() {
    let verdict = Verdict::Ended { answer: "42".into(), is_answered: true, usage: Usage::of(80, 20) };
    let decision = Decision { by: None, at: 1, shown: String::new(), verdict, nonce: String::new() };
    let asks = asks_for(&[("a", "run_agent", json!({"task": "think"}))]);
    let text = timeline(&[Event::from(asks), Event::Decided { wait: "7:1.0".into(), decision }], None);
    assert!(text.contains("1 model call, 115 tokens (90 read, 25 written)"), "{text}");
}
