//! The lines that a component lacks, as text to paste: what a refusal shows and what `tools learn` prints.
//!
//! Every suggestion is a whole `[[component]]` that [`file::parse`](super::file::parse) takes: a new one, or
//! the one that is there with what it lacks, to be put in its place. It binds to the digest and never to the
//! name alone.

use std::collections::{BTreeMap, BTreeSet};

use url::Host;

use super::entries::{Identity, Policy};
use super::model::host::HostPattern;
use super::model::path::PathPrefix;
use super::model::{
    ComponentPolicy, DEFAULT_KEY_VALUE_BYTES, HttpRule, KeyValueRule, Scheme, Scope, Want, default_methods,
};
use super::render;
use super::rules::{Refusal, RequestLine, Target};

/// Stands where a host is to be filled in. No name below `example` is ever given to anybody (RFC 2606), so
/// pasting it unread grants nothing.
const HOST_TO_FILL_IN: &str = "host.example";

/// Most paths of one host, scheme and port that a learned policy names. More are a pattern: `/items/1`,
/// `/items/2`, …
const MOST_PATHS: usize = 8;

/// Most segments of a learned path.
const MOST_SEGMENTS: usize = 16;

/// A request that a component made, or tried to.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    pub line: RequestLine<'a>,
    /// Whether the host's address was a private one.
    pub private: bool,
}

/// What [`learn`] came to.
#[derive(Debug)]
pub struct LearnedEntry {
    /// The least that allows what was observed, and whatever was granted before.
    pub entry: ComponentPolicy,
    /// Requests that no line can allow.
    pub refused: BTreeSet<String>,
}

/// The entry to add to, if there is one: the one that applies, else one of the name whose digest is another
/// build's.
pub fn base<'a>(policy: &'a Policy, component: Identity<'_>) -> Option<&'a ComponentPolicy> {
    let mut named = policy.named(component.name).iter();
    let of_other_build = || named.find(|entry| entry.binding.signers.is_empty());
    policy.find(component).or_else(of_other_build).map(|entry| &***entry)
}

/// The lines for a component that lacks these: what the policy says of it with them added.
pub fn lines(policy: &Policy, component: Identity<'_>, wants: &[Want]) -> String {
    let mut entry = begin(component, base(policy, component));
    let mut comments = String::new();
    for want in wants {
        match want {
            Want::Http => {
                comments
                    .push_str("# Fill in the host that it is to reach, and narrow port, methods and path.\n");
                entry.http.insert(to_fill_in());
            }
            Want::KeyValue => {
                comments.push_str(
                    "# scope \"user\": each user has their own. \"component\": all callers share it.\n",
                );
                entry.key_value.get_or_insert_with(key_value);
            }
            Want::Toolbox => entry.toolbox = true,
            Want::Ask => entry.ask = true,
        }
    }
    comments + &render::component(&entry)
}

/// What a component that wants to keep values is given first.
pub fn key_value() -> KeyValueRule {
    KeyValueRule { scope: Scope::User, bytes: DEFAULT_KEY_VALUE_BYTES }
}

/// The least that allows everything observed, together with what `base` grants.
pub fn learn<'a>(
    component: Identity<'_>,
    base: Option<&ComponentPolicy>,
    observed: impl IntoIterator<Item = Observed<'a>>,
) -> LearnedEntry {
    let mut entry = begin(component, base);
    let mut refused = BTreeSet::new();
    let mut wanted = BTreeSet::new();
    for request in observed {
        match Target::parse(&request.line).and_then(|target| rule_for(&target, request.private)) {
            Ok(rule) => _ = wanted.insert(rule),
            Err(refusal) => _ = refused.insert(refusal.to_string()),
        }
    }
    let is_new = |rule: &HttpRule| !entry.http.iter().any(|other| other.covers(rule));
    let wanted: BTreeSet<_> = wanted.into_iter().filter(is_new).collect();
    entry.http = reduced(entry.http.into_iter().chain(generalised(wanted)));
    LearnedEntry { entry, refused }
}

/// What either grants. The binding, limits and everything that is one value are the first one's.
pub(crate) fn union(one: &ComponentPolicy, other: &ComponentPolicy) -> ComponentPolicy {
    let mut both = one.clone();
    // A digest is a further condition where none is asked for.
    if !both.binding.digests.is_empty() {
        both.binding.digests.extend(other.binding.digests.iter().cloned());
    }
    both.toolbox |= other.toolbox;
    both.ask |= other.ask;
    both.key_value = both.key_value.or(other.key_value);
    both.http = reduced(both.http.into_iter().chain(other.http.iter().cloned()));
    for (name, rule) in &other.secrets {
        both.secrets.entry(name.clone()).or_insert_with(|| rule.clone());
    }
    for (key, value) in &other.config {
        both.config.entry(key.clone()).or_insert_with(|| value.clone());
    }
    for (old, new) in &other.rename {
        both.rename.entry(old.clone()).or_insert_with(|| new.clone());
    }
    both
}

fn begin(component: Identity<'_>, base: Option<&ComponentPolicy>) -> ComponentPolicy {
    let bare = ComponentPolicy::bare(component.name, component.digest);
    base.map_or_else(|| bare.clone(), |base| union(base, &bare))
}

fn to_fill_in() -> HttpRule {
    HttpRule {
        host: HostPattern::Exact(Host::Domain(HOST_TO_FILL_IN.to_owned())),
        scheme: Scheme::Https,
        port: Scheme::Https.default_port(),
        path: PathPrefix::root(),
        methods: default_methods(),
        private: false,
    }
}

/// The line that allows this request and little else.
fn rule_for(target: &Target, private: bool) -> Result<HttpRule, Refusal> {
    if matches!(target.method.as_str(), "CONNECT" | "TRACE") {
        return Err(Refusal::Method(format!("{} is never allowed", target.method)));
    }
    // A prefix has no empty segments, so that one ends where the first stands.
    let segments = target.path.split('/').skip(1).take_while(|segment| !segment.is_empty());
    let path = segments.take(MOST_SEGMENTS).fold(String::new(), |path, segment| format!("{path}/{segment}"));
    let path = if path.is_empty() { PathPrefix::root() } else { PathPrefix::parse(&path)? };
    Ok(HttpRule {
        host: HostPattern::Exact(target.host.clone()),
        scheme: target.scheme,
        port: target.port,
        path,
        methods: [target.method.clone()].into(),
        private,
    })
}

/// Where a request goes, but for its path.
type Origin = (HostPattern, Scheme, u16);

/// With paths cut by their last segments where there are too many of one origin.
fn generalised(rules: BTreeSet<HttpRule>) -> Vec<HttpRule> {
    let mut origins: BTreeMap<Origin, BTreeSet<HttpRule>> = BTreeMap::new();
    for rule in rules {
        origins.entry((rule.host.clone(), rule.scheme, rule.port)).or_default().insert(rule);
    }
    let mut all = vec![];
    for (_, rules) in origins {
        let mut rules = reduced(rules);
        // Every round makes the longest paths shorter, so that it ends with one line for `/` at the latest.
        while rules.len() > MOST_PATHS {
            let depth = |rule: &HttpRule| rule.path.as_str().matches('/').count();
            let deepest = rules.iter().map(depth).max().unwrap_or_default();
            let cut = |rule: HttpRule| {
                if depth(&rule) < deepest { rule } else { HttpRule { path: rule.path.parent(), ..rule } }
            };
            let before = rules.clone();
            rules = reduced(rules.into_iter().map(cut));
            if rules == before {
                break;
            }
        }
        all.extend(rules);
    }
    all
}

/// Merges rules into equal grants in fewer lines: methods of one path together, and no line within another.
fn reduced(rules: impl IntoIterator<Item = HttpRule>) -> BTreeSet<HttpRule> {
    let mut merged: BTreeMap<(Origin, PathPrefix, bool), BTreeSet<String>> = BTreeMap::new();
    for rule in rules {
        merged
            .entry(((rule.host, rule.scheme, rule.port), rule.path, rule.private))
            .or_default()
            .extend(rule.methods);
    }
    let merged = merged.into_iter().map(|(((host, scheme, port), path, private), methods)| HttpRule {
        host,
        scheme,
        port,
        path,
        methods,
        private,
    });
    let rules: Vec<_> = merged.collect();
    // A line for every host takes no secrets, so that it stands for no line that does.
    let stands_for = |one: &HttpRule, other: &HttpRule| {
        one != other
            && one.covers(other)
            && (one.host == HostPattern::Any) == (other.host == HostPattern::Any)
    };
    rules.iter().filter(|rule| !rules.iter().any(|other| stands_for(other, rule))).cloned().collect()
}

#[cfg(test)]
mod tests;
