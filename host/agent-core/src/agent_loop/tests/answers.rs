//! What models are told of calls that lead nowhere: repeated ones, too many, and answers that are too long.

use super::*;

const REMINDER: &str = "Error: not run, because you made this very call twice and got the same answer both times. Use \
                        that answer, call with other arguments, use another tool, or reply without one.";

/// Plays replies of calls by name and number, each of which is answered as `tool` says. Gives, per reply,
/// what the refusals were.
fn play(replies: &[&[(&str, u64)]], tool: impl Fn(usize, u64) -> (String, ToolOutcome)) -> Vec<Vec<bool>> {
    let (mut run, mut step) = start(RunLimits { tokens: u64::MAX, ..RunLimits::default() });
    let mut refused = Vec::new();
    for (turn, calls) in replies.iter().enumerate() {
        let calls: Vec<_> = calls.iter().map(|(name, n)| ("id", *name, json!({ "n": n }))).collect();
        step = run.on(asks_model(&step).replied(asks_for(&calls))).unwrap();
        let Step::CallTools(open) = &step else { panic!("{step:?}") };
        refused.push(open.iter().map(|open| open.refusal.is_some()).collect());
        for open in open.clone() {
            let answer = match open.refusal {
                Some(refusal) => {
                    assert_eq!(
                        (refusal.content.as_str(), refusal.receipt.outcome),
                        (REMINDER, ToolOutcome::NotRun)
                    );
                    refusal
                }
                None => {
                    let (content, outcome) = tool(turn, open.call.arguments["n"].as_u64().unwrap());
                    answer_of("echo", content, outcome)
                }
            };
            step = run.on(Event::ToolReturned { index: open.index, answer }).unwrap();
        }
    }
    refused
}

#[test]
fn the_third_equal_call_in_a_row_is_answered_with_a_reminder() {
    let same = |_, n: u64| (format!("answer to {n}"), ToolOutcome::Ok);
    let changing = |turn, n: u64| (format!("answer to {n} in turn {turn}"), ToolOutcome::Ok);
    let failing = |_, _| ("Error: it is broken.".to_owned(), ToolOutcome::Failed);
    // What was too long is the same whatever room there was.
    let long = |turn, _| (format!("Error: room for about {turn}"), ToolOutcome::OutputLimit);
    let (one, other): (&[_], &[_]) = (&[("echo", 1)], &[("echo", 2)]);
    let both: &[_] = &[("echo", 1), ("add", 1)];

    assert_eq!(play(&[one; 5], same), [[false], [false], [true], [true], [true]]);
    assert_eq!(play(&[one; 4], failing), [[false], [false], [true], [true]]);
    assert_eq!(play(&[one; 4], long), [[false], [false], [true], [true]]);
    assert_eq!(play(&[one; 5], changing), [[false]; 5], "somebody who polls");
    assert_eq!(play(&[one, one, other, one], same), [[false]; 4], "not in a row");
    assert_eq!(play(&[one, one, &[("add", 1)], one], same), [[false]; 4], "another tool");
    // Two calls that go together are each in a row of their own.
    assert_eq!(play(&[both; 3], same), [[false, false], [false, false], [true, true]]);
    // Twice in one reply is twice.
    assert_eq!(play(&[&[("echo", 1), ("echo", 1)], one], same), [vec![false, false], vec![true]]);
}

#[test]
fn a_run_that_is_taken_up_again_is_reminded_all_the_same() {
    let (mut run, step) = start(RunLimits::default());
    let mut journal = vec![Event::Started { task: task(RunLimits::default()), tools: String::new() }];
    let mut note = |run: &mut Run, event: Event| {
        journal.push(event.clone());
        (run.on(event).unwrap(), journal.clone())
    };
    let mut call = asks_model(&step);
    for turn in 0..3 {
        let (step, journal) = note(&mut run, call.replied(asks_for(&[("1", "echo", json!({}))])));
        let (_, resumed) = Run::resume(journal, catalog()).unwrap();
        assert_eq!(resumed, step);
        let Step::CallTools(open) = &step else { panic!("{step:?}") };
        assert_eq!(open[0].refusal.is_some(), turn == 2);
        call = asks_model(&note(&mut run, answer(&open[0])).0);
    }
}

#[test]
fn calls_beyond_the_32nd_of_a_reply_are_not_made() {
    let (mut run, step) = start(RunLimits { tokens: u64::MAX, ..RunLimits::default() });
    let calls: Vec<_> = (0..40).map(|n| ("id", "echo", json!({ "n": n }))).collect();
    let step = run.on(asks_model(&step).replied(asks_for(&calls))).unwrap();
    let Step::CallTools(open) = &step else { panic!("{step:?}") };
    let made: Vec<_> = open.iter().filter(|open| open.refusal.is_none()).map(|open| open.index).collect();
    assert_eq!(made, (0..32).collect::<Vec<_>>());
    assert_eq!(
        open[32].refusal.as_ref().unwrap().content,
        "Error: not run, because there are too many calls in one reply: at most 32 are made."
    );
    let step = answer_all(&mut run, step);
    let result = done(run.on(asks_model(&step).replied(says("done"))).unwrap());
    assert_eq!(answers(&result).len(), 40);
}

#[test]
fn an_unknown_tool_does_not_bring_up_the_whole_catalog() {
    let spec =
        |n: usize| ToolSpec { name: format!("tool_{n:03}"), input_schema: json!({}), ..ToolSpec::default() };
    let catalog = Arc::new(Catalog::new((0..200).map(spec).collect(), String::new()));
    let (mut run, step) = Run::start(task(RunLimits { tokens: u64::MAX, ..RunLimits::default() }), catalog);
    let step = run.on(asks_model(&step).replied(asks_for(&[("1", "nope", json!({}))]))).unwrap();
    let Step::CallTools(open) = &step else { panic!("{step:?}") };
    let text = &open[0].refusal.as_ref().unwrap().content;
    assert!(text.ends_with("tool_030, tool_031 and 168 more."), "{text}");
}

/// A run that used 1,000 + 200 tokens of `budget` and waits for so many echoes.
fn waiting_for(calls: usize, budget: u64) -> Run {
    let (mut run, step) = start(RunLimits { tokens: budget, ..RunLimits::default() });
    let calls: Vec<_> = (0..calls).map(|n| ("id", "echo", json!({ "n": n }))).collect();
    let usage = Some(Usage::of(1_000, 200));
    let reply = ModelReply { usage, ..asks_for(&calls) };
    run.on(asks_model(&step).replied(reply)).unwrap();
    run
}

/// Has a call answered by so many bytes, as a driver does.
fn answered_by(run: &mut Run, index: usize, bytes: usize) -> (ToolReturn, Step) {
    let answer = run.fit(index, answer_of("echo", "x".repeat(bytes), ToolOutcome::Ok));
    let step = run.on(Event::ToolReturned { index, answer: answer.clone() }).unwrap();
    (answer, step)
}

#[test]
fn an_answer_longer_than_the_budget_allows_says_how_much_less_to_ask_for_and_the_run_goes_on() {
    // 10,000 less 1,200 used, 1,200 to be read again and 256 for words: room for 7,344.
    let mut run = waiting_for(1, 10_000);
    let (answer, step) = answered_by(&mut run, 0, 30_000);
    assert_eq!(
        answer.content,
        "Error: the answer had about 10006 tokens and there is room for about 7344. Ask for less: call the tool with \
         arguments that narrow its answer, or reply with what you have."
    );
    let ToolReceipt { outcome, component, .. } = &answer.receipt;
    assert_eq!((*outcome, component.as_deref()), (ToolOutcome::OutputLimit, Some("c@sha256:1")));
    assert_eq!(asks_model(&step).last_by, None);

    // What just fits is read, and leaves room for words.
    let mut run = waiting_for(1, 10_000);
    let (answer, step) = answered_by(&mut run, 0, 7_340 * 3 - 4);
    assert_eq!(answer.receipt.outcome, ToolOutcome::Ok);
    let call = asks_model(&step);
    assert_eq!((call.last_by, call.max_tokens), (Some(Limit::Tokens), 256));
}

#[test]
fn the_answers_of_one_reply_share_what_is_left() {
    let mut run = waiting_for(3, 10_000);
    // Each of those that are still open keeps room for a short answer.
    let (second, _) = answered_by(&mut run, 1, 18_000);
    assert_eq!(second.receipt.outcome, ToolOutcome::Ok);
    let (third, _) = answered_by(&mut run, 2, 18_000);
    assert!(third.content.contains("there is room for about 1274."), "{}", third.content);
    let (first, step) = answered_by(&mut run, 0, 3_000);
    assert_eq!(first.receipt.outcome, ToolOutcome::Ok);
    assert_eq!(asks_model(&step).last_by, Some(Limit::Tokens));
}

#[test]
fn an_answer_for_which_there_is_no_room_at_all_is_replaced_by_a_few_words() {
    let mut run = waiting_for(1, 2_660);
    let (answer, step) = answered_by(&mut run, 0, 500);
    assert_eq!(
        answer.content,
        "Error: the answer had about 172 tokens and there is no room left for it. Reply with what you have."
    );
    assert_eq!(asks_model(&step).last_by, Some(Limit::Tokens));

    let mut run = waiting_for(1, 2_660);
    let (answer, _) = answered_by(&mut run, 0, 20);
    assert_eq!(answer.receipt.outcome, ToolOutcome::Ok, "it is shorter than an excuse");
}
