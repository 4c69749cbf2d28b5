//! What a run may do: what the policy it started with allows **and** the one in force allows too.
//!
//! So what is narrowed counts from the next call, and what is widened from the next run. Both policies are
//! asked and no third one is computed: whatever the lines are, a run is never allowed what one of the two
//! denies. A run that is resumed by another process starts with what is in force there.
//!
//! Where one of the two has no entry for a component, a bare one takes its place: nothing is granted, and the
//! limits are the lower ones of the other entry and the host. So an entry that is added bounds runs under
//! way, and one that is deleted bounds them until they end. Where neither has one, the host's limits hold.
//!
//! What is neither more nor less follows the policy in force: the values of `config`, and where a secret
//! comes from and stands, so that a credential which was replaced is used at once.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent_core::words::ToolHints;
use serde_json::Value;

use super::audience::Caller;
use super::entries::{Entry, Identity, Policy, sha256};
use super::model::approve::ApproveRule;
use super::model::{CallLimits, ComponentPolicy, KeyValueRule, Scope, SecretRule, Want};
use super::rules::{Mismatch, Target};

/// The grants of one component for one call.
#[derive(Debug, Clone)]
pub struct EffectivePolicy {
    current: Arc<Entry>,
    /// Absent when both are the same.
    pinned: Option<Arc<Entry>>,
}

/// What applies where a component's lines say nothing.
#[derive(Debug, Clone, Copy)]
pub struct HostLimits {
    pub timeout: Duration,
    pub memory_bytes: u64,
    pub output_bytes: u64,
}

/// What one call may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolvedLimits {
    pub timeout: Duration,
    pub memory_bytes: u64,
    pub output_bytes: u64,
    /// Absent: no limit.
    pub fuel: Option<u64>,
    pub requests: u32,
    pub concurrent_requests: u32,
    pub http_bytes: u64,
}

#[derive(Debug)]
pub struct EffectiveRequest<'a> {
    /// Whether it may go to a private address.
    pub private: bool,
    /// What the host adds to it, by name.
    pub secrets: Vec<(&'a str, &'a SecretRule)>,
}

impl Policy {
    /// What a run that was pinned to this policy may do now that `current` is in force; absent if neither has
    /// an entry for the component.
    pub fn effective(&self, current: &Self, component: Identity<'_>) -> Option<EffectivePolicy> {
        let now = current.find(component);
        if self.digest() == current.digest() {
            return now.cloned().map(EffectivePolicy::new);
        }
        let bare = || Arc::new(Entry::new(ComponentPolicy::bare(component.name, component.digest)));
        let (now, pinned) = match (now, self.find(component)) {
            (Some(now), Some(pinned)) => (now.clone(), pinned.clone()),
            (Some(now), None) => (now.clone(), bare()),
            (None, Some(pinned)) => (bare(), pinned.clone()),
            (None, None) => return None,
        };
        let is_other = pinned != now;
        Some(EffectivePolicy { current: now, pinned: is_other.then_some(pinned) })
    }

    /// Whether somebody may have to approve calls of a component's tools, in such a run.
    pub fn asks_about(&self, current: &Self, component: Identity<'_>) -> bool {
        let mut policies = [current, self].into_iter().filter(|policy| policy.asks());
        policies.any(|policy| policy.find(component).is_some_and(|entry| entry.approve.is_some()))
    }

    /// Why somebody has to approve a call of a tool with these hints, in a run that was pinned to this policy
    /// now that `current` is in force: the rule of the one that asks, or what is stricter of both, and a
    /// digest that is equal for equal grants.
    pub fn approval(
        &self,
        current: &Self,
        component: Identity<'_>,
        call: (&ToolHints, &Value),
    ) -> Option<(ApproveRule, String)> {
        if !self.asks() && !current.asks() {
            return None;
        }
        let (hints, arguments) = call;
        let entries = [current, self].map(|policy| policy.find(component));
        let asking = entries.iter().flatten().filter_map(|entry| entry.approve.as_ref());
        let asking = asking.into_iter().filter(|rule| rule.asks(hints, arguments)).cloned();
        let rule = asking.reduce(|in_force, other| ApproveRule::stricter(in_force, &other))?;
        let digests: Vec<_> = entries.iter().flatten().map(|entry| entry.digest()).collect();
        Some((rule, sha256(digests.join("\n"))))
    }

    /// Whether a caller may use a component at all, in a run that was pinned to this policy now that
    /// `current` is in force. Each is asked by itself: what only one of them grants is not granted, but whom
    /// one of them keeps out stays out.
    pub fn both_admit(&self, current: &Self, component: Identity<'_>, caller: &Caller<'_>) -> bool {
        let mut entries = [self, current].into_iter().filter_map(|policy| policy.find(component));
        entries.all(|entry| entry.audience.admits(caller))
    }
}

impl EffectivePolicy {
    /// Of a run that started with what is in force.
    pub fn new(current: Arc<Entry>) -> Self {
        Self { current, pinned: None }
    }

    /// The entry that is in force, or the bare one in its place.
    pub fn current(&self) -> &Arc<Entry> {
        &self.current
    }

    /// Digest that is equal for equal grants and for no others, for receipts and for what may not be shared
    /// between grants, such as connections: `sha256:` and hex.
    pub fn digest(&self) -> Cow<'_, str> {
        match &self.pinned {
            None => self.current.digest().into(),
            Some(pinned) => sha256(format!("{}\n{}", self.current.digest(), pinned.digest())).into(),
        }
    }

    fn both(&self) -> impl Iterator<Item = &ComponentPolicy> {
        std::iter::once(&self.current).chain(&self.pinned).map(|entry| &***entry)
    }

    /// Whether both grant it.
    pub fn grants(&self, want: Want) -> bool {
        match want {
            Want::Http => self.both().all(|entry| !entry.http.is_empty()),
            Want::KeyValue => self.key_value().is_some(),
            Want::Toolbox => self.toolbox(),
            Want::Ask => self.both().all(|entry| entry.ask),
        }
    }

    /// Whether both allow a tool of an MCP server, by the server's name for it.
    pub fn allows_tool(&self, tool: &str) -> bool {
        self.both().all(|entry| entry.mcp.as_ref().is_some_and(|rule| rule.allow.contains(tool)))
    }

    /// Whether it may call the run's other tools.
    pub fn toolbox(&self) -> bool {
        self.both().all(|entry| entry.toolbox)
    }

    /// The value of a key that both have.
    pub fn config(&self, key: &str) -> Option<&str> {
        let is_in_both = self.both().all(|entry| entry.config.contains_key(key));
        self.current.config.get(key).filter(|_| is_in_both).map(String::as_str)
    }

    /// Names of the secrets that both have.
    pub fn secret_names(&self) -> BTreeSet<&str> {
        let is_in_both = |name: &&str| self.both().all(|entry| entry.secrets.contains_key(*name));
        self.current.secrets.keys().map(String::as_str).filter(is_in_both).collect()
    }

    /// What it may keep. Of two scopes the one that fewer share.
    pub fn key_value(&self) -> Option<KeyValueRule> {
        let pinned = match &self.pinned {
            Some(pinned) => pinned.key_value?,
            None => self.current.key_value?,
        };
        let current = self.current.key_value?;
        let scope = if pinned.scope == Scope::User { pinned.scope } else { current.scope };
        Some(KeyValueRule { scope, bytes: current.bytes.min(pinned.bytes) })
    }

    /// Of each limit the lower one.
    pub fn limits(&self, host: &HostLimits) -> ResolvedLimits {
        let current = self.current.limits.resolve(host);
        self.pinned.as_ref().map_or(current, |pinned| current.least(&pinned.limits.resolve(host)))
    }

    /// Whether both allow the request. A secret is added if both would.
    pub fn decide(&self, target: &Target) -> Result<EffectiveRequest<'_>, Mismatch> {
        let current = self.current.decide(target)?;
        let mut request = EffectiveRequest { private: current.private, secrets: current.secrets };
        if let Some(pinned) = &self.pinned {
            let pinned = pinned.decide(target)?;
            request.private &= pinned.private;
            request.secrets.retain(|(name, _)| pinned.secrets.iter().any(|(other, _)| name == other));
        }
        Ok(request)
    }
}

impl CallLimits {
    /// With the host's settings where these say nothing.
    pub fn resolve(&self, host: &HostLimits) -> ResolvedLimits {
        ResolvedLimits {
            timeout: self.timeout_ms.map_or(host.timeout, Duration::from_millis),
            memory_bytes: self.memory_bytes.unwrap_or(host.memory_bytes),
            output_bytes: self.output_bytes.unwrap_or(host.output_bytes),
            fuel: self.fuel,
            requests: self.requests,
            concurrent_requests: self.concurrent_requests,
            http_bytes: self.http_bytes,
        }
    }
}

impl ResolvedLimits {
    fn least(&self, other: &Self) -> Self {
        Self {
            timeout: self.timeout.min(other.timeout),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            output_bytes: self.output_bytes.min(other.output_bytes),
            fuel: [self.fuel, other.fuel].into_iter().flatten().min(),
            requests: self.requests.min(other.requests),
            concurrent_requests: self.concurrent_requests.min(other.concurrent_requests),
            http_bytes: self.http_bytes.min(other.http_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RequestLine;
    use crate::testing::{digest, entry_with, policy, text_with, unsigned};

    const HOST: HostLimits =
        HostLimits { timeout: Duration::from_secs(10), memory_bytes: 64 << 20, output_bytes: 1 << 20 };

    fn effective(pinned: &str, current: &str) -> EffectivePolicy {
        let (pinned, current) = (policy(&text_with(pinned)), policy(&text_with(current)));
        pinned.effective(&current, unsigned("a", &digest('a'))).unwrap()
    }

    fn target(url: &str) -> Target {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (authority, path) = rest.split_at(rest.find('/').unwrap());
        Target::parse(&RequestLine { scheme, authority, method: "GET", path_and_query: path }).unwrap()
    }

    #[test]
    fn a_component_that_one_policy_does_not_name_has_the_lower_limits_and_nothing_else() {
        let lines = "toolbox = true\nask = true\nconfig = { a = \"1\" }\nkey-value = { scope = \"user\" }\n\
                     limits = { timeout-ms = 20000, output-bytes = 7, fuel = 5, requests = 1 }\n\
                     [[component.http]]\nhost = \"a.test\"\n";
        let (with, without) = (policy(&text_with(lines)), Policy::empty());
        let of = |pinned: &Policy, current: &Policy| pinned.effective(current, unsigned("a", &digest('a')));
        assert!(of(&with, &with).unwrap().grants(Want::Http));
        // Deleted, and added, while a run goes on.
        for (pinned, current) in [(&with, &without), (&without, &with)] {
            let effective = of(pinned, current).unwrap();
            for want in [Want::Http, Want::KeyValue, Want::Toolbox, Want::Ask] {
                assert!(!effective.grants(want), "{want:?}");
            }
            assert_eq!(effective.config("a"), None);
            assert!(effective.decide(&target("https://a.test/")).is_err());
            let limits = effective.limits(&HOST);
            assert_eq!((limits.timeout, limits.output_bytes), (HOST.timeout, 7));
            assert_eq!((limits.fuel, limits.requests), (Some(5), 1));
        }
        assert!(of(&without, &policy("rollback-on-traps = false")).is_none());
        assert!(with.effective(&with, unsigned("a", &digest('b'))).is_none(), "another file of the name");
    }

    #[test]
    fn requests_need_both_policies_in_either_order() {
        let http = |host: &str, path: &str, more: &str| {
            format!("[[component.http]]\nhost = \"{host}\"\npath = \"{path}\"\n{more}")
        };
        let narrow = http("a.x.test", "/x", "");
        let wide = http("*.x.test", "/", "")
            + &http("a.x.test", "/", "private = true\n")
            + &http("a.x.test", "/x", "");
        for effective in [effective(&narrow, &wide), effective(&wide, &narrow)] {
            assert!(!effective.decide(&target("https://a.x.test/x")).unwrap().private);
            let refused = effective.decide(&target("https://a.x.test/y")).unwrap_err();
            assert_eq!(refused.to_string(), "requests to \"/y\" of a.x.test are not granted; only /x is");
            assert!(effective.decide(&target("https://b.x.test/x")).is_err());
        }
        assert!(effective(&wide, &wide).decide(&target("https://a.x.test/x")).unwrap().private);
        let disjoint = effective(&http("a.x.test", "/x", ""), &http("a.x.test", "/y", ""));
        for path in ["/x", "/y"] {
            assert!(disjoint.decide(&target(&format!("https://a.x.test{path}"))).is_err(), "{path}");
        }
    }

    #[test]
    fn a_secret_is_added_when_both_would_add_it_and_comes_from_where_it_is_now() {
        let lines = |variable: &str, hosts: &str| {
            format!(
                "[[component.http]]\nhost = \"*.a.test\"\n[[component.secret]]\nname = \"key\"\nenv = \"{variable}\"\n\
                 query = \"q\"\nhosts = [{hosts}]\n"
            )
        };
        let none = "[[component.http]]\nhost = \"*.a.test\"\n";
        let effective = effective(
            &lines("OLD", "\"x.a.test\", \"y.a.test\""),
            &lines("NEW", "\"x.a.test\", \"z.a.test\""),
        );
        for (host, count) in [("x", 1), ("y", 0), ("z", 0)] {
            let target = target(&format!("https://{host}.a.test/"));
            let secrets = effective.decide(&target).unwrap().secrets;
            assert_eq!(secrets.len(), count, "{host}");
            for (name, rule) in secrets {
                assert_eq!((name, format!("{:?}", rule.source)), ("key", "Env(\"NEW\")".to_owned()));
            }
        }
        assert_eq!(effective.secret_names(), ["key"].into());
        for (pinned, current) in
            [(none, lines("OLD", "\"x.a.test\"").as_str()), (&lines("OLD", "\"x.a.test\""), none)]
        {
            let effective = super::tests::effective(pinned, current);
            assert!(effective.decide(&target("https://x.a.test/")).unwrap().secrets.is_empty());
            assert!(effective.secret_names().is_empty());
        }
    }

    #[test]
    fn of_everything_else_the_narrower_counts() {
        let one = "tiers = [\"premium\"]\ntoolbox = true\nconfig = { a = \"1\", b = \"2\" }\n\
                   limits = { timeout-ms = 20000, memory-bytes = 1048576, fuel = 5, requests = 1, http-bytes = 10 }\n\
                   key-value = { scope = \"user\", bytes = 100 }\n";
        let other = "users = [\"u1\"]\nconfig = { b = \"3\", c = \"4\" }\n\
                     limits = { output-bytes = 7, requests = 9, concurrent-requests = 2 }\n\
                     key-value = { scope = \"component\", bytes = 50 }\n";
        for (pinned, current, b) in [(one, other, "3"), (other, one, "2")] {
            let effective = effective(pinned, current);
            assert!(!effective.toolbox());
            assert_eq!(["a", "b", "c"].map(|key| effective.config(key)), [None, Some(b), None]);
            assert_eq!(effective.key_value(), Some(KeyValueRule { scope: Scope::User, bytes: 50 }));
            let expected = ResolvedLimits {
                timeout: HOST.timeout,
                memory_bytes: 1 << 20,
                output_bytes: 7,
                fuel: Some(5),
                requests: 1,
                concurrent_requests: 2,
                http_bytes: 10,
            };
            assert_eq!(effective.limits(&HOST), expected);
            let digest = digest('a');
            let component = unsigned("a", &digest);
            let (pinned, current) = (policy(&text_with(pinned)), policy(&text_with(current)));
            let caller =
                |user, tier| pinned.both_admit(&current, component, &Caller { user, tier, role: None });
            assert!(caller(Some("u1"), Some("premium")));
            assert!(!caller(Some("u1"), None) && !caller(None, Some("premium")));
        }
        assert_eq!(effective(one, "").key_value(), None);
        assert_eq!(effective("", one).key_value(), None);
        assert!(effective(one, one).toolbox());
        assert_ne!(effective(one, other).digest(), effective(other, one).digest());
        assert_eq!(effective(one, one).digest(), effective(one, one).current().digest());
        let alone = EffectivePolicy::new(entry_with("limits = { timeout-ms = 20000 }"));
        assert_eq!(
            alone.limits(&HOST).timeout,
            Duration::from_secs(20),
            "a line may raise the host's setting"
        );
    }
}
