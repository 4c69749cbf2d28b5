//! `agent-host dev`: the defaults of somebody who wants to see it work.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use host_setup::output::print;
use http_edge::{Claims, Tokens};
use uuid::Uuid;

use super::{Exit, serve};
use crate::config::{EnvVars, ProcessEnv, Tools};

/// Where `cargo xtask guests` puts the tools, seen from the root of the repository.
const BUILT_TOOLS: &str = "target/tools";

/// Where an installed package has its tools, seen from the folder of the binary: first that of the packages,
/// then that of the folder that is released.
const INSTALLED_TOOLS: [&str; 2] = ["../share/agent-host/tools", "tools"];

/// The database of `dev` in a checkout, and where there is only a binary.
const CHECKOUT_DATABASE: &str = "sqlite://target/dev.db";
const DATABASE_ELSEWHERE: &str = "sqlite://dev.db";

/// How long the token that is printed is valid.
const TOKEN_LIFETIME: Duration = Duration::from_hours(24);

pub(crate) async fn run() -> anyhow::Result<Exit> {
    let vars = DevVars::over(ProcessEnv, Place::of_this_process());
    if let Place::Installed { state: Some(state), .. } = &vars.place {
        fs::create_dir_all(state).with_context(|| format!("making the folder {}", state.display()))?;
    }
    let demo = vars.defaults.contains_key("LLM_MODEL");
    let token = token(&vars)?;
    let tools = Tools::from_vars(&vars)?.folder;
    let files = vars.get("DATABASE_URL").map(|database| introduce_files(&database.to_string_lossy()));
    serve::run(&vars, |address| {
        let text = introduction(address, &token, demo, &tools) + files.as_deref().unwrap_or_default();
        // silent-ok: the service goes on, whoever reads what it says.
        let _ = print(&text);
    })
    .await
}

/// Where `dev` was started.
enum Place {
    /// In a checkout whose tools have been built.
    Checkout,
    /// Anywhere, by a binary that was installed with its tools. `state` is the folder for what it keeps, and
    /// there is none without a home.
    Installed { tools: PathBuf, state: Option<PathBuf> },
    /// Anywhere, by a binary alone.
    Elsewhere,
}

impl Place {
    fn of_this_process() -> Self {
        if Path::new(BUILT_TOOLS).is_dir() {
            return Self::Checkout;
        }
        let binary = std::env::current_exe().ok();
        match binary.as_deref().and_then(Path::parent).and_then(installed_tools) {
            Some(tools) => Self::Installed { tools, state: state_folder(&ProcessEnv) },
            None => Self::Elsewhere,
        }
    }
}

/// The tools that were installed with a binary of that folder.
fn installed_tools(folder: &Path) -> Option<PathBuf> {
    let folders = INSTALLED_TOOLS.iter().filter_map(|tools| folder.join(tools).canonicalize().ok());
    folders.into_iter().find(|tools| tools.is_dir())
}

/// Where the platform wants what a program keeps (XDG base directory specification).
fn state_folder(vars: &impl EnvVars) -> Option<PathBuf> {
    let named = |name| vars.get(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    Some(state.join("agent-host"))
}

/// The address of the database that an installed `dev` keeps in that folder.
fn installed_database(state: &Path) -> String {
    format!("sqlite://{}", state.join("dev.db").display())
}

/// Which databases `dev` makes, for a command that was told of none.
pub(super) fn databases(vars: &impl EnvVars) -> String {
    let installed = state_folder(vars).map(|state| installed_database(&state));
    let installed = installed.map(|url| format!("{url} where it is installed with its tools, "));
    format!(
        "agent-host dev has {CHECKOUT_DATABASE} in the repository, {}and {DATABASE_ELSEWHERE} elsewhere",
        installed.unwrap_or_default()
    )
}

/// The environment, and beneath it what it leaves open.
struct DevVars<V> {
    set: V,
    place: Place,
    defaults: BTreeMap<&'static str, String>,
}

impl<V: EnvVars> DevVars<V> {
    fn over(set: V, place: Place) -> Self {
        let mut defaults = BTreeMap::new();
        let mut default = |name, value: &str| defaults.insert(name, value.to_owned());
        let is_open = |name| set.get(name).is_none_or(|value| value.is_empty());
        default("NODE_ENV", "development");
        default("HOST", "127.0.0.1");
        default("SERVICE_VARIANT", "both");
        default("REDIS_URL", "memory://");
        match &place {
            Place::Checkout => {
                default("DATABASE_URL", CHECKOUT_DATABASE);
                default("TOOLS_DIR", BUILT_TOOLS);
            }
            Place::Installed { tools, state } => {
                let database = state.as_deref().map(installed_database);
                default("DATABASE_URL", database.as_deref().unwrap_or(DATABASE_ELSEWHERE));
                default("TOOLS_DIR", &tools.to_string_lossy());
                // Beside what is kept: the folder of the tools may be another user's.
                let policy = state.as_ref().map(|state| state.join("tools.policy.toml"));
                if let Some(policy) = policy.filter(|policy| policy.is_file()) {
                    default("TOOLS_POLICY", &policy.to_string_lossy());
                }
            }
            Place::Elsewhere => {
                default("DATABASE_URL", DATABASE_ELSEWHERE);
            }
        }
        if is_open("JWT_SECRET") {
            // Made anew at every start: whoever can reach this service must not be able to guess it.
            default("JWT_SECRET", &Uuid::new_v4().to_string());
        }
        if is_open("LLM_API_KEY") && is_open("LLM_MODEL") {
            default("LLM_MODEL", "demo/rules");
        }
        Self { set, place, defaults }
    }
}

impl<V: EnvVars> EnvVars for DevVars<V> {
    fn get(&self, name: &str) -> Option<OsString> {
        let set = self.set.get(name).filter(|value| !value.is_empty());
        set.or_else(|| self.defaults.get(name).map(Into::into))
    }

    fn names(&self) -> Vec<String> {
        self.set.names()
    }
}

/// The token for Variant B as a shell takes it: signed with the secret that was made here. With a secret that
/// was set, which a deployment may have as well, the command that signs one.
fn token(vars: &DevVars<impl EnvVars>) -> anyhow::Result<String> {
    let Some(secret) = vars.defaults.get("JWT_SECRET") else {
        return Ok("$(agent-host token --id dev --tier premium --role admin)".into());
    };
    let claims = Claims { id: "dev".into(), tier: Some("premium".into()), role: Some("admin".into()) };
    Ok(Tokens::new(secret.as_bytes()).issue(&claims, TOKEN_LIFETIME, SystemTime::now())?)
}

/// The addresses, a token and requests to try, for the person at the terminal.
fn introduction(address: SocketAddr, token: &str, demo: bool, tools: &Path) -> String {
    let model = match demo {
        true => "The demo model answers: rules, not a language model. Set LLM_API_KEY for a real one.\n",
        false => "",
    };
    let tools = introduce_tools(tools);
    let console = match cfg!(feature = "console") {
        true => format!("   http://{address}/console, which wants the token"),
        false => String::new(),
    };
    format!(
        "
agent-host serves on http://{address}
  Variant A: POST /agent/invoke   GET /health/live   GET /health/ready   GET /metrics
  Variant B: POST /api/agent   POST /api/agent/async   GET /api/agent/jobs   GET /health   GET /ready
  In a browser: http://{address}/docs{console}
{model}{tools}
Try:

  curl -s http://{address}/agent/invoke -H 'Content-Type: application/json' \\
    -d '{{\"input\": \"What is (19.99 * 3 + 4.50) * 1.2?\"}}'

  TOKEN={token}
  curl -s http://{address}/api/agent -H \"Authorization: Bearer $TOKEN\" \\
    -d '{{\"query\": \"What is (19.99 * 3 + 4.50) * 1.2?\"}}'

"
    )
}

/// Says what is written where, so that it can be looked at and removed. The address of a server may hold a
/// password.
fn introduce_files(database: &str) -> String {
    match database.starts_with("sqlite:") {
        true => format!("Runs and jobs are kept in {database} (DATABASE_URL).\n\n"),
        false => "Runs and jobs are kept in the database that DATABASE_URL names.\n\n".to_owned(),
    }
}

fn introduce_tools(folder: &Path) -> String {
    let shown = folder.display();
    if !folder.is_dir() {
        return format!(
            "There are no tools: the folder {shown} does not exist. Run `cargo xtask guests` and start this in the \
             repository, or set TOOLS_DIR."
        );
    }
    let built = if folder == Path::new(BUILT_TOOLS) { " `cargo xtask guests` builds them anew." } else { "" };
    format!("Tools are served from {shown} (TOOLS_DIR); what changes there is taken up at once.{built}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(set: &[(&'static str, &str)], name: &str) -> Option<String> {
        let set: BTreeMap<_, _> = set.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        DevVars::over(set, Place::Elsewhere).get(name).map(|value| value.into_string().unwrap())
    }

    #[test]
    fn the_demo_model_steps_aside_for_a_key() {
        assert_eq!(get(&[], "LLM_MODEL").as_deref(), Some("demo/rules"));
        assert_eq!(get(&[("LLM_API_KEY", "")], "LLM_MODEL").as_deref(), Some("demo/rules"));
        assert_eq!(get(&[("LLM_MODEL", "")], "LLM_MODEL").as_deref(), Some("demo/rules"));
        assert_eq!(get(&[("LLM_API_KEY", "sk-1")], "LLM_MODEL"), None);
        assert_eq!(get(&[("LLM_API_KEY", "sk-1")], "LLM_API_KEY").as_deref(), Some("sk-1"));
        // Somebody who names a model and forgets the key is to be told so.
        assert_eq!(get(&[("LLM_MODEL", "openai/x")], "LLM_API_KEY"), None);
    }

    #[test]
    fn it_says_what_can_be_opened_in_a_browser() {
        let text = introduction(([127, 0, 0, 1], 3000).into(), "a.b.c", true, Path::new("/"));
        assert!(text.contains("http://127.0.0.1:3000/docs"), "{text}");
        assert_eq!(text.contains("http://127.0.0.1:3000/console"), cfg!(feature = "console"), "{text}");
    }

    #[test]
    fn it_says_where_its_tools_are_from() {
        let here = introduce_tools(Path::new("/"));
        assert_eq!(here, "Tools are served from / (TOOLS_DIR); what changes there is taken up at once.");
        let nowhere = introduce_tools(Path::new("/no/such/folder"));
        assert!(
            nowhere.contains("/no/such/folder does not exist") && nowhere.contains("TOOLS_DIR"),
            "{nowhere}"
        );
    }

    #[test]
    fn it_says_where_it_writes_and_no_password() {
        assert!(introduce_files("sqlite://dev.db").contains("kept in sqlite://dev.db (DATABASE_URL)"));
        let elsewhere = introduce_files("postgres://ada:hunter2@stores/agent");
        assert!(elsewhere.contains("DATABASE_URL") && !elsewhere.contains("hunter2"), "{elsewhere}");
    }

    #[test]
    fn an_installed_binary_serves_the_tools_that_came_with_it_and_keeps_its_files_at_home() {
        let prefix = tempfile::tempdir().unwrap();
        fs::create_dir_all(prefix.path().join("bin")).unwrap();
        fs::create_dir_all(prefix.path().join("share/agent-host/tools")).unwrap();
        let tools = installed_tools(&prefix.path().join("bin")).expect("the tools of the prefix");
        assert!(tools.ends_with("share/agent-host/tools"), "{}", tools.display());
        assert_eq!(installed_tools(&prefix.path().join("share/agent-host/tools")), None);

        let home: BTreeMap<&'static str, String> = BTreeMap::from([("HOME", "/home/ada".to_owned())]);
        let state = state_folder(&home).expect("a folder at home");
        assert_eq!(state, Path::new("/home/ada/.local/state/agent-host"));
        assert_eq!(
            databases(&home),
            "agent-host dev has sqlite://target/dev.db in the repository, \
             sqlite:///home/ada/.local/state/agent-host/dev.db where it is installed with its tools, and \
             sqlite://dev.db elsewhere"
        );
        let vars = DevVars::over(home, Place::Installed { tools: tools.clone(), state: Some(state) });
        assert_eq!(vars.get("TOOLS_DIR").map(PathBuf::from).as_ref(), Some(&tools));
        let database = "sqlite:///home/ada/.local/state/agent-host/dev.db";
        assert_eq!(vars.get("DATABASE_URL"), Some(database.into()));

        let homeless = BTreeMap::<&'static str, String>::new();
        let vars = DevVars::over(homeless, Place::Installed { tools: tools.clone(), state: None });
        assert_eq!(vars.get("TOOLS_DIR").map(PathBuf::from), Some(tools));
        assert_eq!(vars.get("DATABASE_URL"), Some(DATABASE_ELSEWHERE.into()));
    }

    #[test]
    fn what_is_set_wins() {
        assert_eq!(get(&[("HOST", "0.0.0.0")], "HOST").as_deref(), Some("0.0.0.0"));
        assert_eq!(get(&[], "HOST").as_deref(), Some("127.0.0.1"));
        assert_eq!(get(&[("PORT", "0")], "PORT").as_deref(), Some("0"));
    }
}
