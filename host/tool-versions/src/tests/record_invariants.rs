//! What holds for a record, whatever was done to it.

use std::collections::BTreeSet;

use agent_core::ports::{TrialOptions, TrialRequest};
use agent_core::words::{ComponentRecord, Thresholds, TrialKind, TrialState, VersionSource, VersionStatus};
use proptest::prelude::*;

use super::{NOW, digest, upload, version};
use crate::record::draft::MOST_PREVIOUS;
use crate::record::proposals::{MOST_KNOWN, MOST_VERSIONS};
use crate::record::{Change, apply};

fn name() -> impl Strategy<Value = String> {
    (0_u32..30).prop_map(digest)
}

fn maybe_name() -> impl Strategy<Value = Option<String>> {
    prop::option::of(name())
}

fn any_proposal() -> impl Strategy<Value = Change> {
    let source = prop_oneof![
        2 => Just(VersionSource::Folder),
        2 => Just(upload()),
        1 => Just(VersionSource::CommandLine { from: "a.wasm".into() })
    ];
    let by = prop::option::of(Just("policy"));
    (0_u32..30, source, by, any::<bool>()).prop_map(|(name, source, by, wants_http)| {
        let mut version = version(name, source, by);
        version.facts.wants = if wants_http { vec!["http".into()] } else { vec![] };
        Change::Proposed(Box::new(version))
    })
}

fn any_trial() -> impl Strategy<Value = Change> {
    let kind = prop::sample::select(vec![TrialKind::Shadow, TrialKind::Canary]);
    (0_u32..3, kind, maybe_name(), any::<bool>(), -0.1_f64..1.1).prop_map(
        |(id, kind, digest, promote, share)| {
            let thresholds = Thresholds { promote, pass_after: 50, ..Thresholds::default() };
            let request = TrialRequest { digest, options: TrialOptions { share, thresholds } };
            Change::Try { id: id.to_string(), kind, request }
        },
    )
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        12 => any_proposal(),
        2 => maybe_name().prop_map(|name| Change::FileGone { digest: name.unwrap_or_default() }),
        4 => (maybe_name(), any::<bool>()).prop_map(|(digest, serve)| Change::Approve { digest, serve }),
        1 => Just(Change::Enable),
        1 => Just(Change::Disable),
        3 => maybe_name().prop_map(Change::Rollback),
        5 => any_trial(),
        1 => Just(Change::EndTrial),
        3 => maybe_name().prop_map(Change::Promote),
        1 => Just(Change::Delete),
        1 => (0_u32..3).prop_map(|id| Change::TrialFailed { trial: id.to_string(), because: vec!["it trapped".into()] }),
        2 => (0_u32..3).prop_map(|id| Change::TrialPassed { trial: id.to_string() }),
        2 => name().prop_map(|digest| Change::Trapped { digest, since: NOW, because: "it trapped".into() }),
        2 => (any_proposal(), prop::collection::vec(name(), 0..9)).prop_map(|(proposal, known)| match proposal {
            Change::Proposed(version) => Change::Found { version, known },
            other => other,
        }),
    ]
}

fn check(record: &ComponentRecord) {
    let entry = |digest: &String| record.versions.iter().find(|version| version.digest == *digest);
    let is_approved = |digest: &String| {
        entry(digest).is_some_and(|version| matches!(version.status, VersionStatus::Approved { .. }))
    };
    let distinct = |digests: &[String]| digests.iter().collect::<BTreeSet<_>>().len() == digests.len();
    let kept: Vec<_> = record.versions.iter().map(|version| version.digest.clone()).collect();

    assert!(record.active.iter().all(is_approved), "what serves is kept and approved");
    assert!(record.previous.iter().all(is_approved), "what served is kept, so that a rollback finds it");
    assert!(distinct(&record.previous) && record.previous.len() <= MOST_PREVIOUS);
    assert!(!record.previous.iter().any(|digest| Some(digest) == record.active.as_ref()));
    assert!(distinct(&record.withdrawn));
    assert!(record.withdrawn.iter().all(|digest| record.previous.contains(digest)));
    assert_eq!(record.active.is_some(), record.active_since.is_some());
    assert!(distinct(&kept) && kept.len() <= MOST_VERSIONS);
    assert!(kept.iter().all(|digest| record.known.contains(digest)));
    assert!(distinct(&record.known) && record.known.len() <= MOST_KNOWN);
    if record.deleted {
        assert!(!record.enabled && kept.is_empty() && record.active.is_none() && record.trial.is_none());
    }
    if let Some(trial) = record.trial.as_ref().filter(|trial| trial.state == TrialState::Running) {
        assert_eq!(Some(&trial.against), record.active.as_ref());
        assert_ne!(trial.digest, trial.against);
        assert!(entry(&trial.digest).is_some() && record.enabled);
        assert!(
            trial.kind == TrialKind::Shadow || is_approved(&trial.digest),
            "users meet nothing that waits"
        );
        assert!(trial.share > 0.0 && trial.share <= 1.0);
    }
    let json = serde_json::to_string(record).unwrap();
    assert_eq!(serde_json::from_str::<ComponentRecord>(&json).unwrap(), *record);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_done_the_record_stays_sound(changes in prop::collection::vec(any_change(), 1..60)) {
        let mut record = ComponentRecord::default();
        for change in changes {
            let repeated = change.clone();
            let Ok(Some((after, line))) = apply(&record, change.clone(), "user:anna", NOW) else { continue };
            prop_assert_ne!(&after, &record, "{:?} changed nothing, and was written", change);
            prop_assert_eq!((line.at, line.by.as_str()), (NOW, "user:anna"));
            prop_assert!(!line.action.is_empty());
            check(&after);
            // A restart proposes again what it finds, and a verdict may be given by every replica.
            if matches!(repeated, Change::Proposed(_) | Change::Found { .. } | Change::Trapped { .. } | Change::FileGone { .. } | Change::TrialFailed { .. } | Change::TrialPassed { .. }) {
                prop_assert!(matches!(apply(&after, repeated, "host", NOW), Ok(None)));
            }
            record = after;
        }
    }

    /// Equal changes to an equal record make an equal record on every replica.
    #[test]
    fn a_change_depends_on_nothing_else(changes in prop::collection::vec(any_change(), 1..20)) {
        let mut record = ComponentRecord::default();
        for change in changes {
            let (one, other) = (apply(&record, change.clone(), "host", NOW), apply(&record, change, "host", NOW));
            prop_assert_eq!(&one, &other);
            if let Ok(Some((after, _))) = one {
                record = after;
            }
        }
    }
}
