//! One test for each target, so that they run beside one another and fail by their names.

use fuzz::mutation::{Input, mutated};
use fuzz::{TARGETS, corpus, statuses};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// Cases of a property unless `PROPTEST_CASES` says otherwise.
const USUAL_CASES: u32 = 256;

fn hold(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("the table has it");
    let kept = corpus::read(name).expect("it has a corpus");
    for entry in &kept {
        target.take(entry).unwrap_or_else(|problem| panic!("{problem}: {:?}", Input(entry.clone())));
    }
    let config = Config::default();
    let cases = u64::from(target.cases) * u64::from(config.cases) / u64::from(USUAL_CASES);
    let cases = u32::try_from(cases).unwrap_or(u32::MAX);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..config });
    let run = |Input(bytes): Input| target.take(&bytes).map(drop).map_err(TestCaseError::fail);
    runner.run(&mutated(kept), run).unwrap_or_else(|error| panic!("{error}"));
}

macro_rules! hold {
    ($($name:ident)*) => {
        $(#[test] fn $name() { hold(stringify!($name)) })*

        #[test]
        fn every_target_has_a_test() {
            assert_eq!(TARGETS.map(|target| target.name), [$(stringify!($name)),*]);
        }
    };
}

hold! {
    json schema nested_calls event_stream journal tool_arguments compared_answers policy signature component wit_types
    typed_arguments definition mcp_messages mcp_tool_list mcp_output openai_reply anthropic_reply openai_stream
    anthropic_stream provider_error text_calls job_hash manifest registry_answers reference token coded_body
    request_state requests websocket
}

/// Reads lists and numbers, and breaks where strangers' parsers do: behind many brackets, with a number that
/// is too large, and where two entries of the corpus meet.
fn planted(bug: usize, input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    match bug {
        0 => text.matches('[').count() > 150,
        1 => text.split(',').any(|part| part.trim_matches(['[', ']']).parse::<i64>().is_err()),
        _ => text.contains("swap") && text.contains("shadow"),
    }
}

#[test]
fn planted_bugs_are_found_and_shrunk() {
    let kept = vec![b"[1,2,[3]]".to_vec(), b"{\"swap\":1}".to_vec(), b"{\"shadow\":true}".to_vec()];
    for (bug, most_bytes) in [(0, 600), (1, 12), (2, 40)] {
        let kept = if bug == 1 { vec![b"[1,2,3]".to_vec()] } else { kept.clone() };
        // Always the same cases: how far one shrinks is a matter of where it began.
        let config = Config { cases: 4_000, failure_persistence: None, ..Config::default() };
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(config, random);
        let run = |Input(bytes): Input| match planted(bug, &bytes) {
            true => Err(TestCaseError::fail("planted")),
            false => Ok(()),
        };
        let found = runner.run(&mutated(kept), run);
        let Err(TestError::Fail(_, input)) = found else { panic!("{bug}: {found:?}") };
        assert!(input.0.len() <= most_bytes, "{bug}: {input:?}");
    }
}

/// A corpus that every handler refuses would reach their first lines only.
#[test]
fn requests_of_the_corpus_reach_handlers() {
    let kept = corpus::read("requests").unwrap();
    let answered: Vec<_> = kept.iter().map(|entry| (Input(entry.clone()), statuses(entry))).collect();
    let all = || answered.iter().flat_map(|(_, statuses)| statuses);
    let taken = all().filter(|status| status.is_success()).count();
    assert!(taken * 2 > all().count(), "{answered:#?}");
}
