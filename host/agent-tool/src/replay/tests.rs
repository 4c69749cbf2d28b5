//! Which calls of a journal are made again, which answers they get, and what counts as a difference.

use agent_core::ports::HttpRecording;
use agent_core::testing::{asks_for, shown, task};
use agent_core::words::{
    Decision, Event, Exchange, ReceiptDetail, ToolCall, ToolOutcome, ToolReceipt, ToolReturn,
    Verdict as Decided, Wait, WaitKind,
};
use serde_json::json;
use tool_host::{HttpOutcome, HttpRequestRecord};

use super::answers::{RecordedAnswers, Used};
use super::comparison::{Comparison, Verdict, unfit};
use super::journal::{RecordedCall, calls};
use super::*;
use host_setup::http_exchange::encode;

fn answer(content: &str, outcome: ToolOutcome) -> ToolReturn {
    ToolReturn { content: content.into(), receipt: ToolReceipt::new("fetch", outcome) }
}

fn with_host(mut answer: ToolReturn, host: &str, requests: u32) -> ToolReturn {
    let exchange =
        Exchange { scheme: "https".into(), host: host.into(), port: 443, requests, ..Exchange::default() };
    answer.receipt.detail =
        Some(Box::new(ReceiptDetail { exchanges: vec![exchange], ..ReceiptDetail::default() }));
    answer
}

fn recorded(answer: ToolReturn) -> RecordedCall {
    let call = ToolCall { id: "1".into(), name: "fetch".into(), arguments: json!({"url": "x"}) };
    RecordedCall { call_id: "run_1.1.0".into(), asked: call.clone(), call, is_wait: false, answer }
}

fn request(method: &str, body: &str) -> HttpRequestRecord {
    HttpRequestRecord {
        method: method.into(),
        url: "https://example.org/".into(),
        headers: vec![],
        body: body.into(),
        body_cut: false,
    }
}

fn response(body: &str, cut: bool) -> HttpOutcome {
    HttpOutcome::Response { status: 200, headers: vec![], body: body.into(), cut }
}

fn exchange(request: &HttpRequestRecord, outcome: &HttpOutcome) -> HttpRecording {
    HttpRecording { call_id: "c".into(), exchange: encode(request, outcome) }
}

#[test]
fn calls_stand_in_the_order_of_the_replies_with_the_ids_they_were_recorded_by() {
    let returned =
        |index, content: &str| Event::ToolReturned { index, answer: answer(content, ToolOutcome::Ok) };
    let [started, reply] = begun(&["a", "b"]);
    let [_, second] = begun(&["c", "never answered"]);
    let events = [
        started,
        reply,
        returned(1, "of b"),
        returned(0, "of a"),
        second,
        returned(0, "of c"),
        Event::Cancelled,
    ];
    let run = calls(&events).unwrap();
    let read: Vec<_> =
        run.calls.iter().map(|one| (&*one.call_id, &*one.call.name, &*one.answer.content)).collect();
    assert_eq!(read, [("run_1.1.0", "a", "of a"), ("run_1.1.1", "b", "of b"), ("run_1.2.0", "c", "of c")]);
    assert!(calls(&events[1..]).is_none());
}

/// The task of a run and a reply that calls these tools without arguments.
fn begun(names: &[&str]) -> [Event; 2] {
    let calls: Vec<_> = names.iter().map(|name| ("id", *name, json!({}))).collect();
    [Event::Started { task: task("do it"), tools: String::new() }, Event::from(asks_for(&calls))]
}

#[test]
fn a_call_is_as_somebody_edited_it_and_one_that_a_decision_answered_ran_nothing() {
    let wait = |index: usize, kind| {
        let wait = agent_core::testing::wait(&format!("job:{index}"), kind, shown(json!({})));
        Wait { index, ..wait }
    };
    let decided = |index: usize, verdict| Event::Decided {
        wait: format!("job:{index}"),
        decision: Decision {
            by: Some("ada".into()),
            at: 1,
            shown: String::new(),
            verdict,
            nonce: String::new(),
        },
    };
    let returned = |index| Event::ToolReturned { index, answer: answer("done", ToolOutcome::Ok) };
    let waits = vec![wait(0, WaitKind::Approval), wait(1, WaitKind::Question), wait(2, WaitKind::Approval)];
    let mut events = begun(&["pay", "ask_user", "pay"]).to_vec();
    events.extend([
        Event::Waiting { waits, epoch: 1 },
        decided(0, Decided::Edit { arguments: json!({"euros": 1}) }),
        decided(1, Decided::Answer { answer: json!("blue") }),
        decided(2, Decided::Approve),
        returned(0),
        returned(1),
        returned(2),
    ]);
    let run = calls(&events).unwrap();
    let read: Vec<_> =
        run.calls.iter().map(|one| (&one.call.arguments, &one.asked.arguments, one.is_wait)).collect();
    let (none, edited) = (json!({}), json!({"euros": 1}));
    assert_eq!(read, [(&edited, &none, false), (&none, &none, true), (&none, &none, false)]);
    let fits: Vec<_> = run.calls.iter().map(|one| unfit(one, 0, &BTreeSet::new())).collect();
    assert!(matches!(&fits[..], [None, Some(Verdict::NothingRan { .. }), None]), "{fits:?}");
}

#[tokio::test]
async fn answers_are_those_to_the_same_request_of_the_same_call_each_given_once() {
    let recordings = vec![
        exchange(&request("POST", "one"), &response("1", false)),
        exchange(&request("POST", "two"), &response("2", true)),
        exchange(&request("POST", "one"), &response("3", false)),
        HttpRecording { call_id: "c".into(), exchange: b"of another version".to_vec() },
    ];
    let answers = RecordedAnswers::new(recordings);
    let ask = async |call_id: &str, request: HttpRequestRecord| {
        use tool_host::HttpAnswers as _;
        answers.answer(tool_host::CallKey { run_id: "run_1", call_id }, &request).await
    };
    assert_eq!(ask("c", request("POST", "two")).await, Ok(response("2", true)));
    assert_eq!(ask("c", request("POST", "one")).await, Ok(response("1", false)));
    assert_eq!(ask("c", request("POST", "one")).await, Ok(response("3", false)));
    let less_often = ask("c", request("POST", "one")).await.unwrap_err();
    assert!(
        less_often.contains("less often") && less_often.contains("POST https://example.org/"),
        "{less_often}"
    );
    let never = ask("c", request("GET", "")).await.unwrap_err();
    assert!(never.contains("made no such request"), "{never}");
    assert!(ask("d", request("POST", "one")).await.is_err());
    // Of a request that failed early only a part was sent, and recorded.
    let unsent = HttpRequestRecord { body_cut: true, ..request("PUT", "be") };
    let early =
        RecordedAnswers::new(vec![exchange(&unsent, &HttpOutcome::Failed("connection-refused".into()))]);
    let given = early.take("c", &request("PUT", "beginning"));
    assert_eq!(given, Ok(HttpOutcome::Failed("connection-refused".into())));
    assert_eq!((answers.used("c"), answers.used("e")), (Used { recorded: 3, cut: 1 }, Used::default()));
}

/// A process was killed in the middle of the first request, and another one made the call again.
#[test]
fn answers_of_an_attempt_that_was_killed_are_not_given() {
    let cut_off = HttpOutcome::Failed("connection-terminated".into());
    let given = |requests: u32| {
        let answers = RecordedAnswers::new(vec![
            exchange(&request("POST", "one"), &cut_off),
            exchange(&request("POST", "one"), &response("1", false)),
            exchange(&request("POST", "two"), &response("2", false)),
        ]);
        answers.keep_last("c", requests);
        (answers.recorded("c"), answers.take("c", &request("POST", "one")).unwrap())
    };
    assert_eq!(given(2), (2, response("1", false)));
    for of_one_attempt in [3, 4, 0] {
        assert_eq!(given(of_one_attempt), (3, cut_off.clone()), "{of_one_attempt} requests");
    }
    RecordedAnswers::new(vec![]).keep_last("c", 1);
    let mut many = with_host(answer("1", ToolOutcome::Ok), "a", 2).receipt;
    many.detail.as_mut().unwrap().unlisted_requests = 3;
    assert_eq!(comparison::requests(&many), 5);
}

#[test]
fn what_cannot_be_made_again_is_said() {
    let mcp_servers = BTreeSet::from(["wiki".to_owned()]);
    let of = |answer, recorded_exchanges| unfit(&recorded(answer), recorded_exchanges, &mcp_servers);
    assert_eq!(of(answer("1", ToolOutcome::Ok), 0), None);
    assert_eq!(of(with_host(answer("1", ToolOutcome::Ok), "a", 1), 1), None);
    let unrecorded = of(with_host(answer("1", ToolOutcome::Ok), "a", 1), 0);
    assert!(
        matches!(&unrecorded, Some(Verdict::NotReplayed { why }) if why.contains("TOOLS_RECORD_HTTP")),
        "{unrecorded:?}"
    );
    let mut nested = answer("1", ToolOutcome::Ok);
    nested.receipt.nested = 2;
    assert!(matches!(of(nested, 0), Some(Verdict::NotReplayed { why }) if why.contains("digests")));
    let by = |component: &str| {
        let mut by = with_host(answer("1", ToolOutcome::Ok), "a", 1);
        by.receipt.component = Some(component.into());
        by
    };
    let of_server = of(by("wiki@sha256:1"), 0);
    assert!(
        matches!(&of_server, Some(Verdict::NotReplayed { why }) if why.contains("MCP server")),
        "{of_server:?}"
    );
    assert_eq!(of(by("wikipedia@sha256:1"), 1), None);
    assert!(matches!(of(answer("", ToolOutcome::NotRun), 0), Some(Verdict::NothingRan { .. })));
    assert!(matches!(of(answer("", ToolOutcome::Interrupted), 0), Some(Verdict::NotReplayed { .. })));
}

#[test]
fn outcome_output_and_hosts_may_differ_and_cost_does_not_count() {
    let whole = Used { recorded: 1, cut: 0 };
    let then = recorded(with_host(answer(r#"{"a":1,"b":2}"#, ToolOutcome::Ok), "a", 1));
    let mut now = then.answer.clone();
    now.receipt.duration_ms = 99.0;
    now.receipt.component = Some("c@sha256:2".into());
    let same = Comparison::between(&then, &now, whole);
    assert_eq!((&same.verdict, same.output_diff.len()), (&Verdict::Same, 0));

    let other = with_host(answer("Error: \u{1b}[31mno", ToolOutcome::Failed), "b", 1);
    let differs = Comparison::between(&then, &other, whole);
    assert_eq!(differs.verdict, Verdict::Differs { parts: vec!["outcome", "output", "hosts"] });
    let text = report::of("run_1", &[same, differs]);
    for part in [
        "differs in outcome and output and hosts",
        "outcome    ok, now failed",
        "https://a:443: 1 request, now https://b:443: 1 request",
        "| -  \"a\": 1,",
        "| +Error: \\u{1b}[31mno",
        "run_1: 2 tool calls, 1 same, 1 differ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\u{1b}'));

    // What was recorded in part says nothing when it differs.
    for in_part in [Used { recorded: 1, cut: 1 }, Used { recorded: 0, cut: 0 }] {
        let unsure = Comparison::between(&then, &other, in_part);
        assert!(matches!(unsure.verdict, Verdict::NotReplayed { .. }), "{unsure:?}");
    }
    // Nor does an answer that the run had no room for.
    let cut = recorded(answer("Error: there is no room", ToolOutcome::OutputLimit));
    let unsure = Comparison::between(&cut, &answer("1", ToolOutcome::Ok), Used::default());
    assert!(
        matches!(&unsure.verdict, Verdict::NotReplayed { why } if why.contains("too long")),
        "{unsure:?}"
    );
}

#[test]
fn a_difference_is_bounded() {
    let lines = |of: char| (0..500).map(|_| of.to_string().repeat(1_000) + "\n").collect::<String>();
    let then = recorded(answer(&lines('a'), ToolOutcome::Ok));
    let compared = Comparison::between(&then, &answer(&lines('b'), ToolOutcome::Ok), Used::default());
    assert_eq!(compared.output_diff.len(), 61);
    assert!(compared.output_diff.iter().all(|line| line.len() < 500));
}

#[test]
fn the_exit_says_whether_anything_differs_and_else_whether_all_was_compared() {
    let of = |verdict| Comparison::not_made(&recorded(answer("", ToolOutcome::Ok)), verdict);
    let same = || of(Verdict::Same);
    let unsure = || of(Verdict::NotReplayed { why: String::new() });
    let differs = || of(Verdict::Differs { parts: vec!["output"] });
    let never = || of(Verdict::NothingRan { why: String::new() });
    assert_eq!(exit(&[]), Exit::Success);
    assert_eq!(exit(&[same(), never()]), Exit::Success);
    assert_eq!(exit(&[same(), unsure()]), Exit::Code(2));
    assert_eq!(exit(&[unsure(), differs(), same()]), Exit::Failure);
}

#[test]
fn a_component_takes_the_place_and_the_grants_of_the_one_of_its_name() {
    let scratch = tempfile::tempdir().unwrap();
    let (tools, given, copies) =
        (scratch.path().join("tools"), scratch.path().join("given"), scratch.path().join("copies"));
    for folder in [&tools, &given, &copies] {
        std::fs::create_dir(folder).unwrap();
    }
    let write = |path: PathBuf, text: &str| std::fs::write(path, text).unwrap();
    write(tools.join("a.wasm"), "old");
    write(tools.join("a.wasm.sig"), "old signature");
    write(tools.join("b.wasm"), "other");
    write(given.join("a.wasm"), "new");
    let digest = |text: &str| format!("sha256:{:x}", <sha2::Sha256 as sha2::Digest>::digest(text));
    write(scratch.path().join("tools.policy.toml"), &format!("a {} b {}", digest("old"), digest("other")));
    let mut config = Tools {
        needs_approval: false,
        registry: None,
        folder: tools.clone(),
        is_default_folder: false,
        policy: tool_host::PolicyFile::Beside(tools.clone()),
        cache: None,
        timeout: std::time::Duration::from_secs(1),
        memory_bytes: 1,
        output_bytes: 1,
        component_concurrency: 1,
        fuel_metering: false,
        record_http: false,
    };

    let unknown = folder::replace(&mut config, &given.join("c.wasm"), &copies).unwrap_err().to_string();
    assert!(unknown.contains("a.wasm, b.wasm"), "{unknown}");
    folder::replace(&mut config, &given.join("a.wasm"), &copies).unwrap();
    let read = |name: &str| std::fs::read_to_string(config.folder.join(name)).ok();
    assert_eq!((read("a.wasm").as_deref(), read("b.wasm").as_deref()), (Some("new"), Some("other")));
    assert_eq!(read("a.wasm.sig"), None);
    let tool_host::PolicyFile::At(policy) = &config.policy else { panic!("{:?}", config.policy) };
    let policy = std::fs::read_to_string(policy).unwrap();
    assert_eq!(policy, format!("a {} b {}", digest("new"), digest("other")));
    assert_eq!(std::fs::read_to_string(tools.join("a.wasm")).unwrap(), "old");
}
