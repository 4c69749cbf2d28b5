//! `approve`: which calls it means.

use agent_core::words::ToolHints;
use serde_json::json;

use super::*;
use crate::model::approve::ApproveRule;

fn rule(approve: &str) -> ComponentPolicy {
    let policy = parse(&text_with(&format!("approve = {approve}\n"))).unwrap();
    let entry = policy.entries().first().unwrap();
    // What is written out means the same.
    let written = render::component(entry);
    assert_eq!(parse(&written).unwrap().entries().first(), Some(entry), "{written}");
    ComponentPolicy::clone(entry)
}

#[test]
fn hints_and_arguments_say_which_calls_are_meant() {
    let hint = |destructive| ToolHints { destructive, ..ToolHints::default() };
    for (approve, destructive, silent, harmless) in [
        (r#""always""#, true, true, true),
        (r#""destructive""#, true, false, false),
        (r#"{ when = "destructive", unhinted = true }"#, true, true, false),
        (r#"{ when = "always", pass = '{"required": ["euros"]}' }"#, true, true, true),
        (r#"{ when = "always", pass = '{"required": ["cents"]}' }"#, false, false, false),
    ] {
        let rule = rule(approve).approve.unwrap();
        let asks = [Some(true), None, Some(false)].map(|said| rule.asks(&hint(said), &json!({ "cents": 5 })));
        assert_eq!(asks, [destructive, silent, harmless], "{approve}");
    }
}

#[test]
fn of_two_rules_what_is_stricter_counts() {
    let strict = r#"{ when = "always", users = ["ada"], count = 2, own = false, within-s = 60 }"#;
    let mild = r#"{ when = "always", users = ["bob"], within-s = 90, on-expiry = "approve" }"#;
    let [strict, mild] = [strict, mild].map(|text| rule(text).approve.unwrap());
    for (in_force, other, user) in [(&strict, &mild, "ada"), (&mild, &strict, "bob")] {
        let both = ApproveRule::stricter(in_force.clone(), other);
        assert_eq!((both.deciders.count, both.deciders.own, both.within_s), (2, false, 60));
        assert_eq!((both.on_expiry.as_str(), both.deciders.users), ("reject", set([user])));
    }
}

#[test]
fn deciders_and_times_are_read() {
    let approve = r#"{ when = "always", users = ["ada"], roles = ["auditor"], count = 2, own = false, within-s = 60, on-expiry = "approve" }"#;
    let rule = rule(approve).approve.unwrap();
    assert_eq!((rule.deciders.users, rule.deciders.roles), (set(["ada"]), set(["auditor"])));
    assert_eq!((rule.deciders.count, rule.deciders.own, rule.within_s), (2, false, 60));
    assert_eq!(rule.on_expiry.as_str(), "approve");
}
