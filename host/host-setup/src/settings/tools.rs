//! Where the tools are, and what one call of a tool may use up.

use std::path::PathBuf;
use std::time::Duration;

use tool_host::{MOST_COMPONENT_BYTES, PolicyFile, ToolLimits};
use tool_registry::{Credentials, Options};

use super::problem::{Problem, Problems};
use super::process_env::EnvVars;
use super::reader::{self, Reader, Reported};
use super::setting::{
    HOUR, MIB, Setting, bytes, hidden, millis, milliseconds, number, one_of, path, secret, settings,
};
use super::stores::{DATABASE_URL, Stores};

settings! {
    /// The folder of tool components: every *.wasm in it is one.
    TOOLS_DIR = path().or("tools");
    /// The file that says what tools may do beyond computing: which component, by its digest, may reach what,
    /// with which secrets and limits. Read again when it changes.
    TOOLS_POLICY = path().or_derived("<TOOLS_DIR>.policy.toml");
    /// The folder that compiled tools are kept in, and what a restart has to know of them.
    TOOLS_CACHE_DIR = path().or_derived("$XDG_CACHE_HOME/agent-host or $HOME/.cache/agent-host");
    /// Whether bytes of a component serve only once somebody has approved them: the policy by naming their
    /// digest or signer or, where there is a DATABASE_URL, an operator through the admin API or `agent-host
    /// tools approve`.
    TOOLS_APPROVAL = one_of(&["on", "off"]).or_derived("on with NODE_ENV=production, else off");
    /// How long one tool call may take.
    TOOL_TIMEOUT_MS = milliseconds(1, HOUR).or_number(|| millis(ToolLimits::default().timeout));
    /// How much memory one tool call may use.
    TOOL_MEMORY_BYTES = bytes(MIB, 4096 * MIB).or_number(|| ToolLimits::default().memory_bytes as u64);
    /// How much one tool call may return.
    TOOL_OUTPUT_BYTES = bytes(1, 1024 * MIB).or_number(|| ToolLimits::default().output_bytes as u64);
    /// How many calls of one component may run at the same time. Further ones wait their turn within their
    /// time, so that a component that hangs keeps only its own callers waiting. All components together
    /// run 128.
    TOOL_COMPONENT_CONCURRENCY = number(1, 128).or_number(|| u64::from(ToolLimits::default().component_concurrency));
    /// Whether the instructions of tool calls are counted, at some cost.
    TOOL_FUEL_METERING = one_of(&["off", "on"]).or("off");
    /// Whether what tools ask and are answered over HTTP is kept in DATABASE_URL, for `agent-tool replay`:
    /// the first 64 KiB of each body, without credentials, at most 64 exchanges of a call and 8 MiB of a run.
    TOOLS_RECORD_HTTP = one_of(&["off", "on"]).or("off");
    /// The registry that `agent-host tools install` and `agent-tool publish` log in to, as references name
    /// it. All others are asked without credentials, so that no other one is shown them.
    TOOLS_REGISTRY = hidden("a host, or host:port");
    /// Who to be there.
    TOOLS_REGISTRY_USER = hidden("a name without a colon");
    /// The password or access token of that user. It is sent over TLS or within this machine only.
    TOOLS_REGISTRY_PASSWORD = secret();
}

/// Variables of the platform, which are read for a default only. No problem is reported of them.
pub static PLATFORM_FOLDERS: [&str; 2] = ["XDG_CACHE_HOME", "HOME"];

/// Where the tools are, and what one call of a tool may use up.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The folder of components (`TOOLS_DIR`).
    pub folder: PathBuf,
    /// Whether that is the default one, which may be missing.
    pub is_default_folder: bool,
    /// The file that grants things to tools (`TOOLS_POLICY`).
    pub policy: PolicyFile,
    /// The folder for compiled components (`TOOLS_CACHE_DIR`). Absent when neither it nor the platform's own
    /// variables name one: then every start compiles.
    pub cache: Option<PathBuf>,
    /// Whether components wait for an approval (`TOOLS_APPROVAL`).
    pub needs_approval: bool,
    /// How long one call may take (`TOOL_TIMEOUT_MS`).
    pub timeout: Duration,
    /// How much memory one call may use (`TOOL_MEMORY_BYTES`).
    pub memory_bytes: usize,
    /// How much one call may return (`TOOL_OUTPUT_BYTES`).
    pub output_bytes: usize,
    /// How many calls of one component may run at once (`TOOL_COMPONENT_CONCURRENCY`).
    pub component_concurrency: u32,
    /// Whether instructions are counted (`TOOL_FUEL_METERING`).
    pub fuel_metering: bool,
    /// Whether HTTP of tools is recorded (`TOOLS_RECORD_HTTP`).
    pub record_http: bool,
    /// Who to be to one registry (`TOOLS_REGISTRY` and what belongs to it).
    pub registry: Option<Credentials>,
}

impl Tools {
    /// Reads nothing but what concerns tools and the environment, for commands that work without a model.
    pub fn from_vars(vars: &impl EnvVars) -> Result<Self, Problems> {
        reader::collect(vars, SETTINGS, |reader| {
            // The default of TOOLS_APPROVAL follows from it: a command serves no more than the service does.
            reader.run_in_named_environment();
            Self::read(reader)
        })
    }

    /// Reports the setting of the stores that these need.
    pub fn report_missing(&self, stores: &Stores, reader: &mut Reader<'_>) {
        if self.record_http && stores.database.is_none() {
            reader.report(Problem::missing_beside(&DATABASE_URL, &TOOLS_RECORD_HTTP));
        }
    }

    /// How registries are talked to.
    pub fn registry_options(&self, plain_http: bool) -> Options {
        let limits = tool_registry::Limits::of_component(MOST_COMPONENT_BYTES);
        Options { plain_http, credentials: self.registry.clone(), limits }
    }

    /// Reads what concerns tools.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let folder = reader.value(&TOOLS_DIR, |text| Some(PathBuf::from(text)));
        let policy = reader.path(&TOOLS_POLICY);
        let cache = reader.path(&TOOLS_CACHE_DIR);
        let needs_approval = reader.optional(&TOOLS_APPROVAL, on_or_off);
        let is_production = reader.is_production();
        let timeout = reader.duration(&TOOL_TIMEOUT_MS);
        let memory_bytes = reader.number(&TOOL_MEMORY_BYTES);
        let output_bytes = reader.number(&TOOL_OUTPUT_BYTES);
        let component_concurrency = reader.number(&TOOL_COMPONENT_CONCURRENCY);
        let fuel_metering = reader.switch(&TOOL_FUEL_METERING);
        let record_http = reader.switch(&TOOLS_RECORD_HTTP);
        let registry = read_credentials(reader);
        let platform_cache = platform_cache(reader);
        let folder = folder?;
        Ok(Self {
            policy: policy?.map_or_else(|| PolicyFile::Beside(folder.clone()), PolicyFile::At),
            folder,
            is_default_folder: !reader.is_set(&TOOLS_DIR),
            cache: cache?.or(platform_cache),
            needs_approval: needs_approval?.unwrap_or(is_production),
            timeout: timeout?,
            memory_bytes: memory_bytes?,
            output_bytes: output_bytes?,
            component_concurrency: component_concurrency?,
            fuel_metering: fuel_metering?,
            record_http: record_http?,
            registry: registry?,
        })
    }
}

fn on_or_off(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// All three, or none.
fn read_credentials(reader: &mut Reader<'_>) -> Result<Option<Credentials>, Reported> {
    let registry = reader.optional(&TOOLS_REGISTRY, |text| {
        // It is read as in a reference.
        let reference = tool_registry::Reference::parse_destination(&format!("oci://{text}/x")).ok()?;
        (reference.registry() == text).then(|| text.to_owned())
    });
    let user = reader.optional(&TOOLS_REGISTRY_USER, |text| {
        // The colon separates it from the password (RFC 7617, 2).
        (!text.contains(|c: char| c == ':' || c.is_control())).then(|| text.to_owned())
    });
    let password = reader.secret(&TOOLS_REGISTRY_PASSWORD);
    let (registry, user, password) = (registry?, user?, password?);
    match (registry, user, password) {
        (None, None, None) => Ok(None),
        (Some(registry), Some(user), Some(password)) => Ok(Some(Credentials { registry, user, password })),
        _ => {
            let all = [&TOOLS_REGISTRY, &TOOLS_REGISTRY_USER, &TOOLS_REGISTRY_PASSWORD];
            Err(report_missing(reader, &all))
        }
    }
}

/// Of settings that belong together, the first that is missing.
fn report_missing(reader: &mut Reader<'_>, all: &[&'static Setting]) -> Reported {
    let [is_set, is_missing] =
        [true, false].map(|set| all.iter().copied().find(|one| reader.is_set(one) == set));
    let missing = is_missing.unwrap_or(&TOOLS_REGISTRY);
    reader.report(Problem::missing_beside(missing, is_set.unwrap_or(&TOOLS_REGISTRY_USER)))
}

/// Where the platform wants caches to be (XDG base directory specification). It reads [`PLATFORM_FOLDERS`].
fn platform_cache(reader: &Reader<'_>) -> Option<PathBuf> {
    let [caches, home] = PLATFORM_FOLDERS.map(|name| reader.platform_folder(name));
    caches.or_else(|| Some(home?.join(".cache"))).map(|caches| caches.join("agent-host"))
}
