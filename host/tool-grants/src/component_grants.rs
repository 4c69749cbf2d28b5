//! The grants of components, by the policy in force.
//!
//! [`ComponentGrants`] holds the policy and the way out. [`ComponentGrants::of_call`] gives the grants of one
//! component for one call: what the policy that the run was pinned to allows **and** the one in force allows
//! too. They are made once for each pair of entries and kept until the policy changes, secrets and what looks
//! for them included.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tool_egress::{CallKey, Egress, EgressBounds, HttpMode};
use tool_policy::audience::Caller;
use tool_policy::signature::{self, Signed, VerifiedSigner};
use tool_policy::{
    ComponentPolicy, EffectivePolicy, Entry, HostLimits, Identity, Lookup, Policy, Want, change, suggest,
};

use agent_core::secret::Secret;
use agent_core::words::Principal;
use outbound::{SystemResolver, Tls};
use tokio::runtime::{self, Handle};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::error::GrantError;
use crate::granted::{Granted, Rules, credentials};
use crate::learning::Learning;
use crate::policy_store::{Environment, PolicyError, PolicyFile, PolicyStore, Reload};
use crate::secret_sources;

/// Most grants that are kept: what is forgotten is made again.
const MOST_KEPT: usize = 1_000;

pub struct ComponentGrants {
    /// Absent where there is to be no file: then nothing is granted.
    store: Option<PolicyStore>,
    /// What is in force without one.
    nothing: Arc<Policy>,
    means: HostMeans,
    /// Made when a component is first granted something: reading the system's certificates takes milliseconds
    /// of a start.
    egress: OnceLock<Egress>,
    /// By the digest of what they allow. Held for a few instructions, never across an await.
    kept: Mutex<BTreeMap<String, Arc<Granted>>>,
}

/// What the host has to give.
pub struct HostMeans {
    pub environment: Environment,
    /// Network I/O is done on it for guests that compute.
    pub io: Handle,
    /// Where those do.
    pub guests: runtime::Id,
    /// Where requests go.
    pub http: HttpMode,
    pub limits: HostLimits,
    /// There is a store for what components keep.
    pub keeps_values: bool,
    /// The host counts instructions.
    pub counts_fuel: bool,
    /// Notes down what is not granted, if that is what the host is for. Then everything is loaded and nothing
    /// more is granted.
    pub learning: Option<Arc<Learning>>,
}

/// What bounds the making of grants that are not kept: the files of secrets may lie on a mount that does not
/// answer.
#[derive(Clone, Copy)]
pub struct GrantBounds<'a> {
    /// The component's permits for threads that read them.
    pub threads: &'a Arc<Semaphore>,
    /// How long it may take.
    pub within: Duration,
    /// When it ends in any case.
    pub deadline: std::time::Instant,
}

/// Why there are no grants for a call.
#[derive(Debug)]
pub enum NoGrants {
    /// The policy or a secret stands against it, with a text for the log.
    Denied(String),
    /// The files of secrets did not answer within this time.
    OutOfTime(Duration),
}

impl From<String> for NoGrants {
    fn from(problem: String) -> Self {
        Self::Denied(problem)
    }
}

impl ComponentGrants {
    /// Reads the policy. Blocks.
    pub fn open(file: &PolicyFile, means: HostMeans) -> Result<Self, PolicyError> {
        let (path, absence) = file.location()?;
        let store = path.map(|path| PolicyStore::open(path, absence)).transpose()?;
        Ok(Self {
            store,
            nothing: Arc::new(Policy::empty()),
            means,
            egress: OnceLock::new(),
            kept: Mutex::default(),
        })
    }

    pub fn current(&self) -> Arc<Policy> {
        self.store.as_ref().map_or_else(|| self.nothing.clone(), PolicyStore::current)
    }

    /// The file's name, and why it is not what is in force.
    pub fn fault(&self) -> Option<(String, String)> {
        let store = self.store.as_ref()?;
        store.fault()?;
        // Nothing of the file: the text stands in the readiness report, which anyone may read.
        let error = "cannot be used; the last good policy stays in force, and the log says what is wrong";
        Some((self.file_name(), error.to_owned()))
    }

    /// Reads the file again. True when another policy is in force now. Blocks.
    pub fn reload(&self) -> bool {
        let Some(store) = &self.store else { return false };
        let before = store.fault();
        match store.reload() {
            Reload::Unchanged => {
                self.forget_changed_secrets(store);
                false
            }
            Reload::Swapped { before, after } => {
                self.kept.lock().clear();
                for change in change::between(&before, &after, &self.means.limits) {
                    tracing::info!(
                        component = change.name,
                        narrowed = change.narrowed.join(", "),
                        widened = change.widened.join(", "),
                        altered = change.altered.join(", "),
                        "the policy changed"
                    );
                }
                tracing::info!(digest = after.digest(), "a policy came into force");
                true
            }
            Reload::Kept(error) => {
                if before.is_none_or(|before| before.to_string() != error.to_string()) {
                    tracing::error!(%error, "the last good policy stays in force");
                }
                // A broken file keeps no credential in use that was replaced or revoked.
                self.forget_changed_secrets(store);
                false
            }
        }
    }

    /// Forgets the grants whose secrets have other values now, or none: a credential in a file is replaced
    /// without a word in the policy.
    fn forget_changed_secrets(&self, store: &PolicyStore) {
        let kept: Vec<_> =
            self.kept.lock().iter().map(|(digest, granted)| (digest.clone(), granted.clone())).collect();
        for (digest, granted) in kept {
            let entry = granted.policy.current();
            if entry.secrets.is_empty() {
                continue;
            }
            let now = secret_sources::resolve(entry, &|name| (self.means.environment)(name), store.folder());
            if !now.is_ok_and(|now| is_same(&now, &granted.secrets)) {
                tracing::info!(component = entry.name, "its secrets have changed");
                self.kept.lock().remove(&digest);
            }
        }
    }

    /// Who signed a component, of those that the policy trusts for its name. Blocks, for as long as hashing
    /// takes.
    pub fn signer(&self, name: &str, component: &[u8], signature: Option<&[u8]>) -> Option<VerifiedSigner> {
        let (policy, signature) = (self.current(), signature?);
        let mut trusted = policy.signers(name).peekable();
        // Nobody asks who signed it.
        trusted.peek()?;
        let signed = Signed { name, component, manifest: &[] };
        signature::verify(&signed, signature, trusted)
            .inspect_err(|error| tracing::warn!(component = name, %error, "a signature is of no use"))
            .ok()
    }

    /// Whether the policy names a component by its digest or signer: that is its approval.
    pub fn names(&self, component: Identity<'_>) -> bool {
        let policy = self.current();
        matches!(policy.look_up(component), Lookup::Entry(entry) if !entry.takes_any_version())
    }

    /// Whether the tools of an MCP server may be loaded in the version that is meant. Blocks: secrets may be
    /// in files.
    pub fn check_server(&self, server: Identity<'_>, wants: &[Want]) -> Result<(), GrantError> {
        match self.current().look_up(server) {
            Lookup::Entry(entry) if entry.mcp.is_some() => self.check(server, wants),
            _ => Err(GrantError::OtherTools { digest: server.digest.to_owned() }),
        }
    }

    /// What an MCP server is granted when nobody calls it: to be asked for its tools.
    pub async fn of_server(self: &Arc<Self>, entry: Arc<Entry>) -> Result<Arc<Granted>, String> {
        let policy = EffectivePolicy::new(entry);
        if let Some(granted) = self.kept.lock().get(&*policy.digest()) {
            return Ok(granted.clone());
        }
        let this = self.clone();
        let made = tokio::task::spawn_blocking(move || this.granted(&policy)).await;
        made.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Whether a component may be loaded that wants these. Blocks: secrets may be in files.
    pub fn check(&self, component: Identity<'_>, wants: &[Want]) -> Result<(), GrantError> {
        let policy = self.current();
        let name = component.name;
        let (entry, is_other_build) = match policy.look_up(component) {
            Lookup::Entry(entry) => (Some(entry), false),
            Lookup::OtherBuilds => (None, true),
            Lookup::Nothing => (None, false),
        };
        let effective = entry.map(|entry| EffectivePolicy::new(entry.clone()));
        let is_granted = |want: Want| effective.as_ref().is_some_and(|policy| policy.grants(want));
        let lacks: Vec<_> = wants.iter().copied().filter(|want| !is_granted(*want)).collect();
        let refusal = match lacks.first() {
            Some(first) => Some(refusal(*first)),
            None => is_other_build.then_some(GrantError::OtherBuild),
        };
        if let Some(refusal) = refusal.filter(|_| self.means.learning.is_none()) {
            let lines = suggest::lines(&policy, component, &lacks);
            // In the log and not in the error, which anyone may read: an entry that is there already stands
            // in the lines.
            let policy = self.file_name();
            tracing::warn!(
                component = name,
                policy,
                "{refusal}. To take the place of what the policy says of it:\n{lines}"
            );
            return Err(refusal);
        }
        let (Some(entry), Some(effective), None) = (entry, &effective, &self.means.learning) else {
            return Ok(());
        };
        if entry.key_value.is_some() && wants.contains(&Want::KeyValue) && !self.means.keeps_values {
            return Err(GrantError::NoKeyValueStore);
        }
        if entry.limits.fuel.is_some() && !self.means.counts_fuel {
            return Err(GrantError::FuelNotCounted);
        }
        self.granted(effective).map(drop).map_err(|problem| {
            tracing::warn!(component = name, problem, "a component cannot have what it is granted");
            GrantError::Secrets
        })
    }

    /// The grants of a component for a call by `caller` in a run that was pinned to `pinned`; absent when
    /// neither that policy nor the one in force says anything of it. Fails when the caller may not use it,
    /// when a secret has no value any more, or when the values are not there within `bounds`.
    pub async fn of_call(
        self: &Arc<Self>,
        pinned: &Policy,
        component: Identity<'_>,
        caller: &Principal,
        bounds: GrantBounds<'_>,
    ) -> Result<Option<Arc<Granted>>, NoGrants> {
        let current = match &self.store {
            Some(store) => store.current(),
            None if self.means.learning.is_some() => self.current(),
            None => return Ok(None),
        };
        self.check_caller(pinned, &current, component, caller)?;
        let effective = pinned.effective(&current, component);
        let bare = || {
            EffectivePolicy::new(Arc::new(Entry::new(ComponentPolicy::bare(
                component.name,
                component.digest,
            ))))
        };
        let Some(policy) = effective.or_else(|| self.means.learning.is_some().then(bare)) else {
            return Ok(None);
        };
        if let Some(granted) = self.kept.lock().get(&*policy.digest()) {
            return Ok(Some(granted.clone()));
        }
        let begun = Instant::now();
        let deadline = (begun + bounds.within).min(Instant::from_std(bounds.deadline));
        let made = tokio::time::timeout_at(deadline, self.make(policy, bounds.threads)).await;
        let out_of_time = |_| NoGrants::OutOfTime(deadline.saturating_duration_since(begun));
        Ok(Some(made.map_err(out_of_time)??))
    }

    /// Makes grants on a thread for blocking work. The thread keeps its permit until it has ended, also when
    /// nobody waits for it any more.
    async fn make(
        self: &Arc<Self>,
        policy: EffectivePolicy,
        threads: &Arc<Semaphore>,
    ) -> Result<Arc<Granted>, String> {
        let permit = threads.clone().acquire_owned().await.map_err(|closed| closed.to_string())?;
        let this = self.clone();
        let made = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            this.granted(&policy)
        });
        made.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Whether a caller may use a component, in a run that was pinned to `pinned`.
    pub fn admits(&self, pinned: &Policy, component: Identity<'_>, caller: &Principal) -> bool {
        self.check_caller(pinned, &self.current(), component, caller).is_ok()
    }

    /// Refuses a component to a caller who may not use it, with a text for the log.
    fn check_caller(
        &self,
        pinned: &Policy,
        current: &Policy,
        component: Identity<'_>,
        caller: &Principal,
    ) -> Result<(), String> {
        if self.means.learning.is_none() && matches!(current.look_up(component), Lookup::OtherBuilds) {
            return Err("the policy has lines for other builds of it only".into());
        }
        if !pinned.both_admit(current, component, &as_caller(caller)) {
            return Err("the policy does not admit the caller to it".into());
        }
        Ok(())
    }

    /// The requests of one call.
    pub fn begin(
        &self,
        call: CallKey<'_>,
        granted: &Granted,
        deadline: std::time::Instant,
    ) -> Option<tool_egress::Call> {
        Some(self.egress.get()?.call_of(call, granted.http.clone(), Instant::from_std(deadline)))
    }

    /// Makes the way out if there is none yet. Blocks.
    fn open_egress(&self) {
        self.egress.get_or_init(|| {
            let tls = Tls::system().inspect_err(|error| {
                tracing::warn!(%error, "the system's certificates cannot be used: tools reach no HTTPS server");
            });
            let (io, http) = (self.means.io.clone(), self.means.http.clone());
            Egress::new(io, Arc::new(SystemResolver), tls.ok(), EgressBounds::default(), http)
                .keeping_off(self.means.guests)
        });
    }

    fn granted(&self, policy: &EffectivePolicy) -> Result<Arc<Granted>, String> {
        let digest = policy.digest().into_owned();
        if let Some(granted) = self.kept.lock().get(&digest) {
            return Ok(granted.clone());
        }
        self.open_egress();
        let folder = self.store.as_ref().map_or(Path::new(""), PolicyStore::folder);
        let values =
            secret_sources::resolve(policy.current(), &|name| (self.means.environment)(name), folder)
                .map_err(|problems| problems.to_string())?;
        let limits = policy.limits(&self.means.limits);
        if limits.fuel.is_some() && !self.means.counts_fuel && self.means.learning.is_none() {
            return Err(
                "the policy bounds its instructions, and nobody counts them (TOOL_FUEL_METERING)".into()
            );
        }
        let secrets = credentials(policy.current(), &values)?;
        let times = tool_egress::Times::default();
        // An MCP server may be silent until it answers, for as long as the call may take.
        let times = if policy.current().mcp.is_some() { times.lengthened(limits.timeout) } else { times };
        let http = tool_egress::Grant::new(
            digest.as_str().into(),
            Arc::new(Rules { policy: policy.clone(), learning: self.means.learning.clone() }),
            secrets,
            tool_egress::RequestLimits {
                requests: limits.requests,
                concurrent_requests: limits.concurrent_requests,
                bytes: limits.http_bytes,
                times,
            },
        )
        .map_err(|error| error.to_string())?;
        let learning = self.means.learning.clone();
        let http = Arc::new(http);
        let granted = Arc::new(Granted { policy: policy.clone(), limits, secrets: values, http, learning });
        let mut kept = self.kept.lock();
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(digest, granted.clone());
        Ok(granted)
    }

    /// The name of the policy's file, without the folder.
    fn file_name(&self) -> String {
        let name = self.store.as_ref().and_then(|store| store.path().file_name());
        name.map_or_else(
            || "a file that TOOLS_POLICY names".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        )
    }
}

/// What is said of a component that is not granted this.
fn refusal(want: Want) -> GrantError {
    match want {
        Want::Http => GrantError::UngrantedHttp { import: "wasi:http" },
        Want::KeyValue => {
            GrantError::NotGranted { import: "agent:tool/key-value", what: "a place to keep values" }
        }
        Want::Toolbox => {
            GrantError::NotGranted { import: "agent:tool/toolbox", what: "the run's other tools" }
        }
        Want::Ask => GrantError::NotGranted { import: "agent:tool/ask", what: "to ask people" },
    }
}

/// The caller as the policy's lists have it.
pub fn as_caller(principal: &Principal) -> Caller<'_> {
    Caller {
        user: principal.user_id.as_deref(),
        tier: principal.tier.as_deref(),
        role: principal.role.as_deref(),
    }
}

fn is_same(one: &BTreeMap<String, Secret>, other: &BTreeMap<String, Secret>) -> bool {
    let pairs = |secrets: &BTreeMap<String, Secret>| -> Vec<_> {
        secrets.iter().map(|(name, secret)| (name.clone(), secret.expose().to_owned())).collect()
    };
    pairs(one) == pairs(other)
}

#[cfg(test)]
mod tests {
    use tool_policy::file;

    use super::*;
    use crate::testing::entry_with;

    #[tokio::test]
    async fn a_request_to_an_mcp_server_may_take_as_long_as_a_call_of_its_tools() {
        let (timeout, memory_bytes, output_bytes) = (Duration::from_secs(10), 64 << 20, 1 << 20);
        let means = HostMeans {
            environment: Arc::new(|_: &str| None),
            io: Handle::current(),
            guests: Handle::current().id(),
            http: HttpMode::default(),
            limits: HostLimits { timeout, memory_bytes, output_bytes },
            keeps_values: false,
            counts_fuel: false,
            learning: None,
        };
        let grants = ComponentGrants::open(&PolicyFile::None, means).unwrap();
        let server = "[[mcp]]\nname = \"docs\"\nurl = \"https://docs.test/mcp\"\nallow = [\"a\"]\n";
        let limits = "limits = { timeout-ms = 600000 }\n";
        let server = file::parse(&format!("{server}{limits}")).unwrap().entries()[0].clone();
        for (entry, total) in
            [(server, Duration::from_secs(600)), (entry_with(limits), Duration::from_secs(60))]
        {
            let granted = grants.granted(&EffectivePolicy::new(entry)).unwrap();
            let key = CallKey { run_id: "", call_id: "" };
            let call = grants.begin(key, &granted, std::time::Instant::now()).unwrap();
            assert_eq!(call.times().total, total);
        }
    }
}
