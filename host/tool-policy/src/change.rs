//! What a new policy takes away and what it adds, for whoever reads the log and for approvals.
//!
//! It is told line by line: a request counts as granted before when one line granted all that the new line
//! does. So a line that two old ones covered together is called wider than it is, never the other way round.
//! Nothing depends on this for safety: what a run may do while policies change is decided by
//! [`effective`](super::effective), request by request.

use std::collections::BTreeSet;

use super::effective::{HostLimits, ResolvedLimits};
use super::entries::Policy;
use super::model::{Binding, ComponentPolicy, HttpRule, Scope, SecretRule};
use super::render::describe;

/// What changed for one entry. Each text names one grant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryChange {
    pub name: String,
    /// Counts from the next call.
    pub narrowed: Vec<String>,
    /// Counts from the next run.
    pub widened: Vec<String>,
    /// Neither more nor less; counts from the next call.
    pub altered: Vec<String>,
}

/// What is different, sorted by name; nothing for equal policies.
pub fn between(old: &Policy, new: &Policy, host: &HostLimits) -> Vec<EntryChange> {
    let mut unpaired: Vec<&ComponentPolicy> = new.entries().iter().map(|entry| &***entry).collect();
    let mut changes = vec![];
    for before in old.entries() {
        let is_pair = |after: &&ComponentPolicy| {
            let is_server = after.mcp.is_some() && before.mcp.is_some();
            after.name == before.name && (is_server || is_related(&before.binding, &after.binding))
        };
        let Some(at) = unpaired.iter().position(is_pair) else {
            let narrowed = vec!["everything: it is no longer in the policy".to_owned()];
            changes.push(EntryChange { name: before.name.clone(), narrowed, ..EntryChange::default() });
            continue;
        };
        let after = unpaired.remove(at);
        let change = of_entry(before, after, host);
        if change != (EntryChange { name: before.name.clone(), ..EntryChange::default() }) {
            changes.push(change);
        }
    }
    for after in unpaired {
        let widened = vec!["everything: it is new in the policy".to_owned()];
        changes.push(EntryChange { name: after.name.clone(), widened, ..EntryChange::default() });
    }
    if old.rolls_back_on_traps() != new.rolls_back_on_traps() {
        let altered = vec!["rollback-on-traps".to_owned()];
        changes.push(EntryChange { name: "the policy".to_owned(), altered, ..EntryChange::default() });
    }
    changes.sort_by(|a, b| a.name.cmp(&b.name));
    changes
}

fn is_related(one: &Binding, other: &Binding) -> bool {
    !one.digests.is_disjoint(&other.digests) || !one.signers.is_disjoint(&other.signers)
}

impl EntryChange {
    /// Notes a grant that was there and one that is there now.
    fn note(&mut self, what: &str, is_less: bool, is_more: bool) {
        if is_less {
            self.narrowed.push(what.to_owned());
        }
        if is_more {
            self.widened.push(what.to_owned());
        }
    }

    fn note_set<T: Ord>(
        &mut self,
        before: &BTreeSet<T>,
        after: &BTreeSet<T>,
        is_covered: impl Fn(&T, &BTreeSet<T>) -> bool,
        name: impl Fn(&T) -> String,
    ) {
        self.narrowed.extend(before.iter().filter(|item| !is_covered(item, after)).map(&name));
        self.widened.extend(after.iter().filter(|item| !is_covered(item, before)).map(&name));
    }
}

fn of_entry(before: &ComponentPolicy, after: &ComponentPolicy, host: &HostLimits) -> EntryChange {
    let mut change = EntryChange { name: before.name.clone(), ..EntryChange::default() };
    of_binding(&mut change, &before.binding, &after.binding);
    let (was, is) = (&before.audience, &after.audience);
    change.note("users, tiers and roles", !is.covers(was), !was.covers(is));
    change.note("toolbox", before.toolbox && !after.toolbox, !before.toolbox && after.toolbox);
    change.note("ask", before.ask && !after.ask, !before.ask && after.ask);
    for key in before.config.keys().chain(after.config.keys()).collect::<BTreeSet<_>>() {
        let what = format!("config {key:?}");
        match (before.config.get(key), after.config.get(key)) {
            (Some(was), Some(is)) if was != is => change.altered.push(what),
            (was, is) => change.note(&what, is.is_none(), was.is_none()),
        }
    }
    if before.rename != after.rename {
        change.altered.push("rename".to_owned());
    }
    of_limits(&mut change, &before.limits.resolve(host), &after.limits.resolve(host));
    of_key_value(&mut change, before, after);
    let covered =
        |rule: &HttpRule, others: &BTreeSet<HttpRule>| others.iter().any(|other| other.covers(rule));
    change.note_set(&before.http, &after.http, covered, describe);
    if before.approve != after.approve {
        match (&before.approve, &after.approve) {
            (Some(_), Some(_)) => change.altered.push("approve".to_owned()),
            (was, is) => change.note("calls without approval", was.is_none(), is.is_none()),
        }
    }
    if before.mcp != after.mcp {
        change.altered.push("the MCP server".to_owned());
    }
    for name in before.secrets.keys().chain(after.secrets.keys()).collect::<BTreeSet<_>>() {
        of_secret(&mut change, name, before.secrets.get(name), after.secrets.get(name));
    }
    change
}

fn of_binding(change: &mut EntryChange, before: &Binding, after: &Binding) {
    // An empty set is no condition.
    let covers = |of: usize, is_superset: bool| of == 0 || is_superset;
    let (was, is) = (&before.digests, &after.digests);
    change.note(
        "digest",
        !covers(is.len(), !was.is_empty() && is.is_superset(was)),
        !covers(was.len(), !is.is_empty() && was.is_superset(is)),
    );
    let (was, is) = (&before.signers, &after.signers);
    change.note(
        "signer",
        !covers(is.len(), !was.is_empty() && is.is_superset(was)),
        !covers(was.len(), !is.is_empty() && was.is_superset(is)),
    );
}

fn of_limits(change: &mut EntryChange, before: &ResolvedLimits, after: &ResolvedLimits) {
    let numbers = |limits: &ResolvedLimits| {
        [
            ("timeout-ms", limits.timeout.as_millis()),
            ("memory-bytes", limits.memory_bytes.into()),
            ("output-bytes", limits.output_bytes.into()),
            ("fuel", limits.fuel.map_or(u128::MAX, u128::from)),
            ("requests", limits.requests.into()),
            ("concurrent-requests", limits.concurrent_requests.into()),
            ("http-bytes", limits.http_bytes.into()),
        ]
    };
    for ((key, was), (_, is)) in numbers(before).into_iter().zip(numbers(after)) {
        change.note(key, is < was, is > was);
    }
}

fn of_key_value(change: &mut EntryChange, before: &ComponentPolicy, after: &ComponentPolicy) {
    let bytes = |entry: &ComponentPolicy| entry.key_value.map_or(0, |rule| rule.bytes);
    change.note("key-value bytes", bytes(after) < bytes(before), bytes(after) > bytes(before));
    if let (Some(was), Some(is)) = (before.key_value, after.key_value) {
        let (was, is) = (was.scope == Scope::User, is.scope == Scope::User);
        change.note("key-value scope", is && !was, was && !is);
    }
}

fn of_secret(change: &mut EntryChange, name: &str, before: Option<&SecretRule>, after: Option<&SecretRule>) {
    let what = format!("secret {name:?}");
    let (Some(before), Some(after)) = (before, after) else {
        return change.note(&what, after.is_none(), before.is_none());
    };
    if (&before.source, &before.placement) != (&after.source, &after.placement) {
        change.altered.push(what.clone());
    }
    change.note_set(
        &before.hosts,
        &after.hosts,
        |host, others| others.iter().any(|other| other.covers(host)),
        |host| format!("{what} for {host}"),
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::entries::Entry;
    use crate::rules::{RequestLine, Target};
    use crate::testing::{digest, entry_with, policy, text_with, unsigned};

    const HOST: HostLimits =
        HostLimits { timeout: Duration::from_secs(10), memory_bytes: 64 << 20, output_bytes: 1 << 20 };

    fn change(before: &str, after: &str) -> [Vec<String>; 3] {
        let (before, after) = (policy(&text_with(before)), policy(&text_with(after)));
        match between(&before, &after, &HOST).as_slice() {
            [] => [vec![], vec![], vec![]],
            [one] => [one.narrowed.clone(), one.widened.clone(), one.altered.clone()],
            several => panic!("{several:?}"),
        }
    }

    #[test]
    fn every_kind_of_line_is_narrowed_one_way_and_widened_the_other() {
        let secret = |hosts: &str| {
            format!(
                "[[component.http]]\nhost = \"*.a.test\"\n[[component.secret]]\nname = \"k\"\nenv = \"K\"\nquery = \"q\"\nhosts = [{hosts}]"
            )
        };
        let (one, two) = (secret("\"x.a.test\""), secret("\"x.a.test\", \"y.a.test\""));
        let none = "[[component.http]]\nhost = \"*.a.test\"";
        let rows = [
            ("users = [\"a\"]", "", "users, tiers and roles"),
            ("users = [\"a\"]", "users = [\"a\", \"b\"]", "users, tiers and roles"),
            ("", "toolbox = true", "toolbox"),
            ("", "ask = true", "ask"),
            ("", "config = { a = \"1\" }", "config \"a\""),
            ("limits = { timeout-ms = 9999 }", "", "timeout-ms"),
            ("", "limits = { timeout-ms = 10001 }", "timeout-ms"),
            ("", "limits = { memory-bytes = 67108865 }", "memory-bytes"),
            ("", "limits = { output-bytes = 1048577 }", "output-bytes"),
            ("limits = { fuel = 5 }", "", "fuel"),
            ("limits = { fuel = 5 }", "limits = { fuel = 6 }", "fuel"),
            ("", "limits = { requests = 17 }", "requests"),
            ("", "limits = { concurrent-requests = 5 }", "concurrent-requests"),
            ("", "limits = { http-bytes = 4194305 }", "http-bytes"),
            ("", "key-value = { scope = \"user\" }", "key-value bytes"),
            ("key-value = { scope = \"user\" }", "key-value = { scope = \"component\" }", "key-value scope"),
            ("", none, "GET HEAD https://*.a.test:443/"),
            (none, one.as_str(), "secret \"k\""),
            (one.as_str(), two.as_str(), "secret \"k\" for y.a.test"),
        ];
        for (less, more, what) in rows {
            assert_eq!(change(less, more), [vec![], vec![what.to_owned()], vec![]], "{less} -> {more}");
            assert_eq!(change(more, less), [vec![what.to_owned()], vec![], vec![]], "{more} -> {less}");
            assert!(change(less, less).iter().all(Vec::is_empty), "{less}");
        }
        let traps = policy("rollback-on-traps = false");
        let changed = between(&policy("# nothing"), &traps, &HOST);
        assert_eq!(changed[0].altered, ["rollback-on-traps"]);
        let other = one.replace("env = \"K\"", "env = \"L\"");
        assert_eq!(change(&one, &other), [vec![], vec![], vec!["secret \"k\"".to_owned()]]);
        let values = change("config = { a = \"1\" }", "config = { a = \"2\" }");
        assert_eq!(values, [vec![], vec![], vec!["config \"a\"".to_owned()]]);
    }

    #[test]
    fn a_line_that_moved_is_both() {
        let line =
            |path: &str| format!("[[component.http]]\nhost = \"a.test\"\npath = \"{path}\"\nprivate = true");
        let [narrowed, widened, altered] = change(&line("/x"), &line("/y"));
        assert_eq!(narrowed, ["GET HEAD https://a.test:443/x, private addresses too"]);
        assert_eq!(widened, ["GET HEAD https://a.test:443/y, private addresses too"]);
        assert!(altered.is_empty());
    }

    #[test]
    fn entries_come_go_and_are_bound_to_more_or_less() {
        let entry = |binding: &str| format!("[[component]]\nname = \"a\"\n{binding}\n");
        let (a, b) = (digest('a'), digest('b'));
        let key = format!("ed25519:{}", "1".repeat(64));
        let one = policy(&entry(&format!("digest = \"{a}\"")));
        let two = policy(&entry(&format!("digest = [\"{a}\", \"{b}\"]")));
        let signed = policy(&entry(&format!("digest = \"{a}\"\nsigner = \"{key}\"")));
        let any_signed = policy(&entry(&format!("signer = \"{key}\"")));
        let other = policy(&entry(&format!("digest = \"{b}\"")));
        let rows = [
            (&one, &two, vec!["digest"]),
            (&signed, &one, vec!["signer"]),
            (&signed, &any_signed, vec!["digest"]),
        ];
        for (less, more, what) in rows {
            let [ahead] = between(less, more, &HOST).try_into().unwrap();
            assert_eq!(
                (ahead.narrowed.len(), &ahead.widened),
                (0, &what.iter().map(ToString::to_string).collect())
            );
            let [back] = between(more, less, &HOST).try_into().unwrap();
            assert_eq!((&back.narrowed, back.widened.len()), (&ahead.widened, 0));
        }
        let changes = between(&one, &other, &HOST);
        let sizes: Vec<_> =
            changes.iter().map(|change| (change.narrowed.len(), change.widened.len())).collect();
        assert_eq!(sizes, [(1, 0), (0, 1)], "another file of the name is another component");
        assert_eq!(between(&one, &one, &HOST), []);
    }

    const LINES: [&str; 8] = [
        "[[component.http]]\nhost = \"*\"\n",
        "[[component.http]]\nhost = \"*.a.test\"\n",
        "[[component.http]]\nhost = \"*.a.test\"\npath = \"/x\"\n",
        "[[component.http]]\nhost = \"x.a.test\"\nmethods = [\"GET\", \"POST\"]\n",
        "[[component.http]]\nhost = \"x.a.test\"\npath = \"/x\"\nprivate = true\n",
        "[[component.http]]\nhost = \"x.a.test\"\nscheme = \"http\"\n",
        "[[component.http]]\nhost = \"x.a.test\"\nport = 8443\n",
        "[[component.http]]\nhost = \"a.test\"\n",
    ];

    fn some_lines() -> impl Strategy<Value = String> {
        prop::collection::vec(any::<bool>(), LINES.len()).prop_map(|chosen| {
            LINES.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(line, _)| *line).collect()
        })
    }

    fn targets() -> Vec<Target> {
        let mut targets = vec![];
        for scheme in ["http", "https"] {
            for authority in ["a.test", "x.a.test", "y.a.test", "x.a.test:8443", "b.test"] {
                for (method, path_and_query) in [("GET", "/"), ("GET", "/x/y"), ("POST", "/"), ("POST", "/x")]
                {
                    targets.push(
                        Target::parse(&RequestLine { scheme, authority, method, path_and_query }).unwrap(),
                    );
                }
            }
        }
        targets
    }

    proptest! {
        #[test]
        fn without_a_widened_line_no_request_is_allowed_that_was_not(before in some_lines(), after in some_lines()) {
            let [narrowed, widened, _] = change(&before, &after);
            let (old, new) = (entry_with(&before), entry_with(&after));
            let pinned = policy(&text_with(&before));
            let effective = pinned.effective(&policy(&text_with(&after)), unsigned("a", &digest('a'))).unwrap();
            for target in targets() {
                let allows = |entry: &Entry| entry.decide(&target).ok().map(|allowed| allowed.private);
                let (was, is) = (allows(&old), allows(&new));
                // Not at all is less than public addresses only, which is less than private ones too.
                prop_assert!(!widened.is_empty() || is <= was, "{}", target);
                prop_assert!(!narrowed.is_empty() || was <= is, "{}", target);
                let now = effective.decide(&target).ok().map(|request| request.private);
                prop_assert_eq!(now, was.min(is), "{}", target);
            }
        }
    }
}
