//! Records, one after another.

use std::collections::BTreeMap;

use agent_core::ports::tool_versions::{
    MOST_AUDIT_LINE_BYTES, MOST_NAME_BYTES, MOST_RECORD_BYTES, Records, Versioned, VersionsError,
};
use agent_core::words::{
    ComponentFacts, ComponentRecord, ComponentVersion, ToolFacts, TrialState, VersionSource, VersionStatus,
};
use serde_json::{Value, json};

use super::{Bench, DAMAGED, line, record_of, trial};
use crate::contract::text::{NASTY, long};

pub(crate) async fn an_empty_store_knows_nothing(bench: &Bench) {
    assert_eq!(bench.store.revision().await.unwrap(), 0);
    assert_eq!(bench.store.records().await.unwrap(), Records::default());
    assert_eq!(bench.store.record("echo").await.unwrap(), None);
    assert_eq!(bench.store.component("echo", "sha256:x").await.unwrap(), None);
    assert_eq!(bench.store.audit("echo", 10).await.unwrap(), []);
    assert_eq!(bench.store.prune(std::time::Duration::ZERO).await.unwrap(), 0);
}

/// A record in which nothing is as it is by default.
fn full_record() -> ComponentRecord {
    let tool = ToolFacts {
        name: NASTY.into(),
        description: long(),
        input_schema: json!({"type": "object", NASTY: [0.1, 1e300, -0.0, u64::MAX, i64::MIN, null]}),
        output_schema: Some(Value::Bool(false)),
        hints: BTreeMap::from([("read-only".into(), NASTY.into())]),
    };
    let facts = ComponentFacts {
        bytes: u64::MAX,
        contract: "agent:tool@0.1.1".into(),
        imports: vec![NASTY.into()],
        wants: vec!["http".into()],
        tells_users_apart: true,
        signer: Some("team".into()),
        tools: vec![tool],
    };
    let version = |status, source| ComponentVersion {
        digest: "sha256:a".into(),
        source,
        proposed_at: u64::MAX,
        status,
        facts: facts.clone(),
    };
    let mut trial = trial("t1");
    trial.share = 0.1 + 0.2;
    trial.state = TrialState::Failed { because: vec![NASTY.into()], at: 7 };
    ComponentRecord {
        enabled: true,
        deleted: true,
        active: Some("sha256:a".into()),
        active_since: Some(u64::MAX),
        previous: vec![NASTY.into()],
        withdrawn: vec![NASTY.into()],
        versions: vec![
            version(
                VersionStatus::Waiting { because: vec![NASTY.into()] },
                VersionSource::Upload { user_id: NASTY.into() },
            ),
            version(
                VersionStatus::Approved { by: "policy".into(), at: 5 },
                VersionSource::CommandLine { from: "oci://r/n@sha256:a".into() },
            ),
        ],
        known: vec!["sha256:a".into(), String::new()],
        trial: Some(trial),
    }
}

pub(crate) async fn a_record_is_read_as_it_was_written(bench: &Bench) {
    for (number, record) in [full_record(), ComponentRecord::default(), full_record()].iter().enumerate() {
        let expected = number as u64;
        assert_eq!(bench.store.write("echo", expected, record, &line("x")).await.unwrap(), expected + 1);
        let versioned = Versioned { revision: expected + 1, record: record.clone() };
        assert_eq!(bench.store.record("echo").await.unwrap().as_ref(), Some(&versioned));
        assert_eq!(bench.peer.record("echo").await.unwrap().as_ref(), Some(&versioned), "in another process");
        let records = bench.peer.records().await.unwrap();
        assert_eq!(records.components, BTreeMap::from([("echo".to_owned(), versioned)]));
    }
}

pub(crate) async fn a_write_wants_the_revision_that_is_there(bench: &Bench) {
    let (one, two) = (record_of(["sha256:1"]), record_of(["sha256:2"]));
    let is_refused = async |expected: u64| {
        let before = bench.store.records().await.unwrap();
        let lines = bench.store.audit("echo", 10).await.unwrap();
        let error = bench.peer.write("echo", expected, &two, &line("refused")).await.unwrap_err();
        assert!(matches!(error, VersionsError::Conflict), "{expected}: {error:?}");
        assert_eq!(bench.store.records().await.unwrap(), before, "{expected}");
        assert_eq!(bench.store.audit("echo", 10).await.unwrap(), lines, "{expected}");
    };
    for expected in [1, 2, u64::MAX, i64::MAX.unsigned_abs()] {
        is_refused(expected).await;
    }
    assert_eq!(bench.store.write("echo", 0, &one, &line("1")).await.unwrap(), 1);
    assert_eq!(bench.peer.write("echo", 1, &one, &line("2")).await.unwrap(), 2);
    for expected in [0, 1, 3, u64::MAX, i64::MAX.unsigned_abs()] {
        is_refused(expected).await;
    }
    assert_eq!(bench.store.write("other", 0, &two, &line("3")).await.unwrap(), 1, "another component");
    assert_eq!(bench.peer.write("echo", 2, &two, &line("4")).await.unwrap(), 3);
    assert_eq!(bench.store.record("echo").await.unwrap().unwrap().record, two);
}

pub(crate) async fn the_revision_of_the_store_rises_with_every_write(bench: &Bench) {
    let deleted = ComponentRecord { deleted: true, ..ComponentRecord::default() };
    let writes = [
        ("a", 0, record_of(["sha256:1"])),
        ("b", 0, record_of(["sha256:1"])),
        ("a", 1, deleted.clone()),
        ("b", 1, deleted),
        ("a", 2, record_of(["sha256:2"])),
        ("a", 3, record_of(["sha256:2"])),
    ];
    let mut before = 0;
    for (name, expected, record) in writes {
        bench.store.write(name, expected, &record, &line("x")).await.unwrap();
        let after = bench.peer.revision().await.unwrap();
        assert!(after > before, "{after} after {before}");
        assert_eq!(bench.peer.records().await.unwrap().revision, after);
        before = after;
    }
    bench.store.keep("echo", "sha256:1", &super::component(b"1", None)).await.unwrap();
    bench.store.prune(std::time::Duration::ZERO).await.unwrap();
    bench.store.write("a", 0, &record_of([""; 0]), &line("x")).await.unwrap_err();
    assert_eq!(bench.peer.revision().await.unwrap(), before, "nothing was written");
}

pub(crate) async fn names_are_plain_text(bench: &Bench) {
    let longest =
        ["n".repeat(MOST_NAME_BYTES), "é".repeat(MOST_NAME_BYTES / 2), "\0".repeat(MOST_NAME_BYTES)];
    let nasty: String = NASTY.chars().take(40).collect();
    let odd = [
        "",
        " ",
        "\0",
        "\\0",
        "\\",
        "a",
        "A",
        "a ",
        "..",
        "../../etc/passwd",
        "a/b",
        "%",
        "_",
        "'",
        "\"",
        "é",
        "e\u{301}",
        "🦀",
        "\n",
        "NULL",
        "1",
        "01",
        "a;--",
        "{}",
        "\u{202e}",
    ];
    let names: Vec<&str> =
        odd.into_iter().chain(longest.iter().map(String::as_str)).chain([&*nasty]).collect();
    for name in &names {
        let record = record_of([*name]);
        assert_eq!(
            bench.store.write(name, 0, &record, &line(name)).await.unwrap(),
            1,
            "{name:?} is another's"
        );
    }
    let records = bench.peer.records().await.unwrap();
    assert_eq!(records.components.len(), names.len());
    for name in names {
        let versioned = Versioned { revision: 1, record: record_of([name]) };
        assert_eq!(records.components[name], versioned);
        assert_eq!(bench.peer.record(name).await.unwrap(), Some(versioned), "{name:?}");
        assert_eq!(bench.peer.audit(name, 10).await.unwrap(), [line(name)], "{name:?}");
    }
}

pub(crate) async fn what_is_too_long_is_not_written(bench: &Bench) {
    let record = record_of(["sha256:1"]);
    let too_long = "é".repeat(MOST_NAME_BYTES / 2) + "n";
    for name in [too_long.as_str(), &long()] {
        let error = bench.store.write(name, 0, &record, &line("x")).await.unwrap_err();
        assert!(matches!(&error, VersionsError::TooLarge(text) if text.contains("64")), "{error:?}");
        assert_eq!(bench.store.record(name).await.unwrap(), None);
        assert_eq!(bench.store.audit(name, 10).await.unwrap(), []);
    }
    let mut large = ComponentRecord::default();
    let bytes_without =
        serde_json::to_string(&ComponentRecord { known: vec![String::new()], ..large.clone() });
    large.known = vec!["x".repeat(MOST_RECORD_BYTES - bytes_without.unwrap().len())];
    bench.store.write("echo", 0, &large, &line("x")).await.unwrap();
    assert_eq!(bench.peer.record("echo").await.unwrap().unwrap().record, large);
    large.known[0].push('x');
    let error = bench.store.write("echo", 1, &large, &line("x")).await.unwrap_err();
    assert!(matches!(error, VersionsError::TooLarge(_)), "{error:?}");
    let mut long_line = line("x");
    long_line.detail = "x".repeat(MOST_AUDIT_LINE_BYTES);
    let error = bench.store.write("echo", 1, &record, &long_line).await.unwrap_err();
    assert!(matches!(error, VersionsError::TooLarge(_)), "{error:?}");
    assert_eq!(bench.store.revision().await.unwrap(), 1, "nothing else was written");
}

pub(crate) async fn a_record_that_could_not_be_read_back_is_refused(bench: &Bench) {
    let mut no_number = record_of(["sha256:1"]);
    let mut trial = trial("t1");
    trial.share = f64::NAN;
    no_number.trial = Some(trial);
    let mut deep = record_of(["sha256:1"]);
    let nested = (0..126).fold(json!({}), |inner, _| json!({"not": inner}));
    deep.versions[0].facts.tools = vec![ToolFacts { input_schema: nested, ..ToolFacts::default() }];
    for record in [no_number, deep] {
        let error = bench.store.write("echo", 0, &record, &line("x")).await.unwrap_err();
        assert!(matches!(&error, VersionsError::Unreadable { name, .. } if name == "echo"), "{error:?}");
    }
    assert_eq!(bench.store.revision().await.unwrap(), 0);
}

pub(crate) async fn a_damaged_record_takes_no_other_away(bench: &Bench) {
    for name in ["a", DAMAGED, "z"] {
        bench.store.write(name, 0, &record_of(["sha256:1"]), &line("x")).await.unwrap();
    }
    bench.behind.damage().await;
    let records = bench.store.records().await.unwrap();
    assert_eq!(records.components.keys().collect::<Vec<_>>(), ["a", "z"]);
    assert_eq!(records.revision, bench.store.revision().await.unwrap());
    let error = bench.store.record(DAMAGED).await.unwrap_err();
    assert!(matches!(&error, VersionsError::Unreadable { name, .. } if name == DAMAGED), "{error:?}");
    assert!(error.to_string().contains(DAMAGED), "{error}");
    let error = bench.store.write(DAMAGED, 0, &record_of(["sha256:2"]), &line("x")).await.unwrap_err();
    assert!(matches!(error, VersionsError::Conflict), "it is there: {error:?}");
    assert_eq!(bench.store.write(DAMAGED, 1, &record_of(["sha256:2"]), &line("x")).await.unwrap(), 2);
    assert_eq!(bench.store.records().await.unwrap().components.len(), 3, "it was mended");
}
