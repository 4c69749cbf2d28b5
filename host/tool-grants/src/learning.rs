//! What a component wants that it is not granted, noted down while nothing more than is granted happens: the
//! input of `agent-host tools learn`.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tool_policy::suggest::{self, Observed};
use tool_policy::{ComponentPolicy, Identity, Policy, RequestLine, Want, render};

use outbound::Reach;

/// Most requests, keys and names that are noted of one component: a guest may make them up in a loop.
const MOST_NOTED: usize = 1_000;

/// The lines of a policy that let a tool do what it tried to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// A whole `[[component]]`, to take the place of what the policy says of it.
    pub lines: String,
    /// Requests that no line can allow, and why.
    pub refused: Vec<String>,
    /// Whether it wanted nothing that it does not have: then the lines are those it has.
    pub is_complete: bool,
}

/// What components were seen to want, by their names.
#[derive(Debug, Default)]
pub struct Learning(Mutex<BTreeMap<String, Noted>>);

/// What one component was seen to want.
#[derive(Debug, Default)]
struct Noted {
    requests: BTreeSet<Request>,
    /// Hosts whose addresses are private.
    private_hosts: BTreeSet<String>,
    config: BTreeSet<String>,
    secrets: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    scheme: &'static str,
    host: String,
    authority: String,
    method: String,
    path_and_query: String,
    is_granted: bool,
}

impl Learning {
    /// A request that the component made.
    pub(crate) fn note_request(
        &self,
        component: &str,
        line: &tool_egress::RequestLine<'_>,
        is_granted: bool,
    ) {
        let request = Request {
            scheme: line.scheme.as_str(),
            host: line.host.to_owned(),
            authority: line.authority.to_owned(),
            method: line.method.to_string(),
            path_and_query: line.path_and_query.to_owned(),
            is_granted,
        };
        self.note(component, |noted| _ = insert(&mut noted.requests, request));
    }

    /// The host of a request has private addresses, and the line that grants it does not allow that.
    pub(crate) fn note_private(&self, component: &str, host: &str) {
        self.note(component, |noted| _ = insert(&mut noted.private_hosts, host.to_owned()));
    }

    /// A key of the configuration that has no value.
    pub(crate) fn note_config(&self, component: &str, key: &str) {
        self.note(component, |noted| _ = insert(&mut noted.config, key.to_owned()));
    }

    /// A secret that it does not have.
    pub(crate) fn note_secret(&self, component: &str, name: &str) {
        self.note(component, |noted| _ = insert(&mut noted.secrets, name.to_owned()));
    }

    /// The lines that let a component do what it was seen to want, beside what `policy` grants it.
    pub fn lines(&self, component: Identity<'_>, wants: &[Want], policy: &Policy) -> Learned {
        let Identity { name, digest, .. } = component;
        let mut all = self.0.lock();
        let noted = all.entry(name.to_owned()).or_default();
        let base = suggest::base(policy, component);
        let observed = noted.requests.iter().filter_map(|request| {
            // Of a request to an address, the address says it.
            let private = noted.private_hosts.contains(&request.host) || is_private(&request.host);
            let line = RequestLine {
                scheme: request.scheme,
                authority: &request.authority,
                method: &request.method,
                path_and_query: &request.path_and_query,
            };
            (!request.is_granted || private).then_some(Observed { line, private })
        });
        let suggest::LearnedEntry { mut entry, refused } = suggest::learn(component, base, observed);
        let mut comments = String::new();
        for want in wants {
            match want {
                // Without a request that it made, there is nothing to say of where it wants to go.
                Want::Http => {}
                Want::KeyValue => _ = entry.key_value.get_or_insert_with(suggest::key_value),
                Want::Toolbox => entry.toolbox = true,
                Want::Ask => entry.ask = true,
            }
        }
        for key in &noted.config {
            let key = key.escape_debug();
            comments.push_str(&format!(
                "# It asked for the configuration \"{key}\": config = {{ {key} = \"…\" }}\n"
            ));
        }
        for secret in &noted.secrets {
            let secret = secret.escape_debug();
            comments.push_str(&format!(
                "# It asked whether there is a secret \"{secret}\": a [[component.secret]] of that name\n"
            ));
        }
        // Without an entry there is nothing to add to one that grants nothing.
        let before = base.map_or_else(|| ComponentPolicy::bare(name, digest), ComponentPolicy::clone);
        let is_same = before == entry;
        Learned {
            is_complete: is_same && refused.is_empty() && comments.is_empty(),
            lines: comments + &render::component(&entry),
            refused: refused.into_iter().collect(),
        }
    }

    fn note(&self, component: &str, note: impl FnOnce(&mut Noted)) {
        note(self.0.lock().entry(component.to_owned()).or_default());
    }
}

fn insert<T: Ord>(set: &mut BTreeSet<T>, value: T) -> bool {
    set.len() < MOST_NOTED && set.insert(value)
}

/// Whether a host is an address that `private = true` is for.
fn is_private(host: &str) -> bool {
    host == "localhost"
        || host.parse::<IpAddr>().is_ok_and(|it| Reach::Private.allows(it) && !Reach::Public.allows(it))
}
