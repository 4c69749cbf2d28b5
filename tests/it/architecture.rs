//! The invariants of host/ARCHITECTURE.md that no manifest can state. Every rule has to find what it is
//! about, so that renaming a crate or a file cannot disarm it.

mod imports;
mod readers;
mod sockets;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use acceptance::repository;
use serde_json::Value;

/// The crates between agent-core and the two programs.
const MIDDLES: [&str; 7] =
    ["backends", "http-edge", "model-client", "redis-stores", "tool-host", "tool-kit", "tool-registry"];

/// The crate above agent-core: the life of a run. Of the middles only the edge and its dialects know it.
const SERVICE: &str = "run-service";

/// The crate below agent-core: JSON of strangers and its schemas are read by it.
const READER: &str = "json-schema";

/// The crate beside it: connections to others are made by it.
const OUTBOUND: &str = "outbound";

/// The crates between agent-core and the tool host: rules about tools, without I/O.
const TOOL_RULES: [&str; 2] = ["tool-policy", "tool-versions"];

/// The crate beside those: HTTP of guests, over `outbound`.
const EGRESS: &str = "tool-egress";

/// The crates above these and below the tool host: what a call is granted, and servers that are asked in the
/// place of a guest.
const GRANTS: &str = "tool-grants";
const MCP_CLIENT: &str = "mcp-client";

/// The crates around the edge: above it clients of OpenAI, below it the protocol whose messages it carries.
const OPENAI: &str = "openai-edge";
const MCP_SERVER: &str = "mcp-server";

/// The attribute on async methods of ports, which every crate may use.
const ATTRIBUTE: &str = "boxed-async";

/// Longest file of Rust, in lines.
const MOST_LINES: usize = 500;

/// The packages of the workspace, as cargo knows them.
struct Workspace(Vec<Value>);

impl Workspace {
    fn read() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
            .current_dir(repository())
            .output()
            .expect("cargo can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        Self(serde_json::from_value(metadata["packages"].take()).unwrap())
    }

    fn names(&self) -> BTreeSet<&str> {
        self.0.iter().map(|package| package["name"].as_str().unwrap()).collect()
    }

    /// What a crate depends on, tests apart.
    fn dependencies(&self, package: &str) -> BTreeSet<&str> {
        let found = self.0.iter().find(|one| one["name"] == package);
        let found = found.unwrap_or_else(|| panic!("there is no crate {package} any more"));
        let dependencies = found["dependencies"].as_array().unwrap().iter();
        let normal = dependencies.filter(|dependency| dependency["kind"] != "dev");
        normal.map(|dependency| dependency["name"].as_str().unwrap()).collect()
    }

    /// Which of our crates a crate depends on, tests and the attribute apart.
    fn known(&self, package: &str) -> BTreeSet<&str> {
        let mut ours = self.names();
        assert!(ours.remove(ATTRIBUTE), "there is no crate {ATTRIBUTE} any more");
        &self.dependencies(package) & &ours
    }

    /// Packages that depend on a crate whose name `is_it`, tests apart.
    fn dependents(&self, is_it: impl Fn(&str) -> bool) -> BTreeSet<&str> {
        let depends = |package: &&str| self.dependencies(package).into_iter().any(&is_it);
        self.names().into_iter().filter(depends).collect()
    }
}

#[test]
fn the_middles_know_the_core_and_nobody_else_of_us() {
    let workspace = Workspace::read();
    for name in MIDDLES.into_iter().chain(TOOL_RULES) {
        let mut allowed = BTreeSet::from(["agent-core", READER]);
        if MIDDLES.contains(&name) {
            allowed.insert(OUTBOUND);
        }
        if name == "http-edge" {
            allowed.extend([SERVICE, MCP_SERVER]);
        }
        if name == "tool-host" {
            allowed.extend(TOOL_RULES.into_iter().chain([EGRESS, GRANTS, MCP_CLIENT]));
        }
        let known = workspace.known(name);
        assert!(known.contains("agent-core") && known.is_subset(&allowed), "{name}: {known:?}");
    }
    for (above, below) in [
        ("agent-core", &[READER][..]),
        (READER, &[]),
        (OUTBOUND, &[]),
        ("tool-build", &[]),
        (EGRESS, &["agent-core", OUTBOUND]),
        (GRANTS, &["agent-core", OUTBOUND, EGRESS, "tool-policy"]),
        (MCP_CLIENT, &["agent-core", READER, EGRESS, GRANTS, "tool-policy"]),
        (SERVICE, &["agent-core", READER]),
        (MCP_SERVER, &["agent-core", READER, SERVICE]),
        (OPENAI, &["agent-core", "http-edge", READER, SERVICE]),
    ] {
        let below: BTreeSet<_> = below.iter().copied().collect();
        assert_eq!(workspace.known(above), below, "{above}");
    }
}

/// What runs compilers and package managers is not linked into the service, and what serves not into the
/// author's program.
#[test]
fn each_program_is_made_of_what_it_needs() {
    let workspace = Workspace::read();
    let shared = BTreeSet::from(["agent-core", "backends", "tool-host", "tool-registry"]);
    let with = |more: &[&'static str]| shared.iter().chain(more).copied().collect::<BTreeSet<_>>();
    for (program, expected) in [
        ("host-setup", shared.clone()),
        (
            "agent-host",
            with(&[
                "host-setup",
                "http-edge",
                "model-client",
                "redis-stores",
                SERVICE,
                OUTBOUND,
                OPENAI,
                MCP_SERVER,
            ]),
        ),
        (
            "agent-tool",
            &with(&["host-setup", "tool-build", "tool-kit", "tool-policy"]) - &BTreeSet::from(["backends"]),
        ),
    ] {
        assert_eq!(workspace.known(program), expected, "{program}");
    }
}

#[test]
fn every_crate_has_a_place_in_the_fan() {
    let mut known = BTreeSet::from([
        "acceptance",
        "agent-core",
        "agent-host",
        "agent-tool",
        ATTRIBUTE,
        "fuzz",
        "host-setup",
        READER,
        OUTBOUND,
        SERVICE,
        "schedules",
        "sim",
        "test-servers",
        "tool-build",
        "xtask",
    ]);
    known.extend(MIDDLES);
    known.extend(TOOL_RULES);
    known.extend([EGRESS, GRANTS, MCP_CLIENT, MCP_SERVER, OPENAI]);
    assert_eq!(Workspace::read().names(), known);
}

#[test]
fn only_the_tool_host_names_wasmtime() {
    assert_eq!(
        Workspace::read().dependents(|name| name.starts_with("wasmtime")),
        BTreeSet::from(["tool-host"])
    );
}

#[test]
fn only_the_stores_name_a_database() {
    let workspace = Workspace::read();
    for (drivers, known_by) in [
        (["mongodb", "moka", "sqlx"].as_slice(), "backends"),
        (&["bullmq-official", "redis"], "redis-stores"),
    ] {
        let dependents = workspace.dependents(|name| drivers.contains(&name));
        assert_eq!(dependents, BTreeSet::from([known_by]));
    }
}

#[test]
fn the_core_names_no_driver() {
    const DRIVERS: [&str; 9] =
        ["axum", "hyper", "mongodb", "prometheus", "redis", "reqwest", "sqlx", "tower", "wasmtime"];
    let workspace = Workspace::read();
    for pure in ["agent-core", SERVICE, READER] {
        let known = workspace.dependencies(pure);
        assert!(
            known.contains("serde_json") && DRIVERS.iter().all(|driver| !known.contains(driver)),
            "{known:?}"
        );
    }
    for waits_for_nothing in [READER, "tool-policy", "tool-versions"] {
        let known = workspace.dependencies(waits_for_nothing);
        let impure = DRIVERS.iter().chain(&["tokio"]).find(|driver| known.contains(*driver));
        assert_eq!(impure, None, "{waits_for_nothing}");
    }
}

#[test]
fn only_the_tests_name_opentelemetry() {
    let workspace = Workspace::read();
    let dependents = workspace.dependents(|name| name.starts_with("opentelemetry"));
    assert_eq!(dependents, BTreeSet::from(["acceptance"]));
}

#[test]
fn only_the_edge_and_its_dialects_have_handlers() {
    let workspace = Workspace::read();
    let dependents = workspace.dependents(|name| name == "axum");
    assert_eq!(dependents, BTreeSet::from(["acceptance", "agent-host", "http-edge", OPENAI]));
    // Whoever owns the socket hands the router on and tells it who is calling, and no more.
    let uses = lines_of("host/agent-host/src", |line| line.contains("axum::"));
    assert!(!uses.is_empty());
    for (place, line) in uses {
        let allowed = ["axum::Router", "axum::extract::ConnectInfo"].iter().any(|part| line.contains(part));
        assert!(allowed, "{place}: {line}");
    }
}

#[test]
fn one_file_reads_the_environment() {
    let reads =
        |line: &str| ["env::var", "env::vars", "vars_os()", "var_os("].iter().any(|call| line.contains(call));
    assert_eq!(files_where(reads), ["host/host-setup/src/settings/process_env.rs"]);
}

#[test]
fn one_file_ends_the_process() {
    assert_eq!(files_where(|line| line.contains("process::exit(")), ["host/agent-host/src/main.rs"]);
}

#[test]
fn unsafe_code_stands_in_one_place() {
    let files = files_where(|line| line.contains("unsafe {") || line.contains("unsafe fn"));
    assert_eq!(files, ["host/tool-host/src/compiler/compiled.rs"]);
}

#[test]
fn the_run_and_the_retry_schedule_have_no_async_and_no_clock() {
    for place in [
        "host/agent-core/src/agent_loop",
        "host/model-client/src/resilience/retry_schedule.rs",
        "host/agent-host/src/config",
        "host/host-setup/src/settings",
    ] {
        let pure = lines_of(place, |_| true);
        assert!(!pure.is_empty(), "there is no {place} any more");
        for (place, line) in pure {
            let code = line.split("//").next().unwrap_or_default();
            let impure = ["async ", ".await", "Instant::now", "SystemTime::now"]
                .iter()
                .any(|word| code.contains(word));
            assert!(!impure, "{place}: {line}");
        }
    }
}

/// What waits are the ports, which others implement, and the fakes of the tests.
#[test]
fn the_core_reads_no_clock_and_waits_in_ports_only() {
    const OF_PORTS: [&str; 2] = ["host/agent-core/src/ports/", "host/agent-core/src/chosen_tools.rs"];
    let is_fake = |place: &str| place.starts_with("host/agent-core/src/testing/");
    let lines: Vec<_> =
        lines_of("host/agent-core/src", |_| true).into_iter().filter(|(place, _)| !is_fake(place)).collect();
    assert!(lines.len() > 3_000, "{}", lines.len());
    for (place, line) in lines {
        let code = line.split("//").next().unwrap_or_default();
        let has = |words: &[&str]| words.iter().any(|word| code.contains(word));
        assert!(!has(&["Instant::now", "SystemTime::now", "tokio::"]), "{place}: {line}");
        let waits = has(&["async ", ".await"]);
        assert!(!waits || OF_PORTS.iter().any(|port| place.starts_with(port)), "{place}: {line}");
    }
}

/// A simulation decides what time it is, which ids there are, and which of several futures is looked at
/// first.
#[test]
fn a_run_is_carried_out_alike_whenever_the_same_happens() {
    let lines = lines_of("host/run-service/src", |_| true);
    let clock: BTreeSet<_> = lines
        .iter()
        .filter(|(_, line)| ["SystemTime::now", "Uuid::now"].iter().any(|word| line.contains(word)))
        .map(|(place, _)| place.split(':').next().unwrap())
        .collect();
    assert_eq!(clock, BTreeSet::from(["host/run-service/src/clock.rs"]));
    let selects = lines.iter().zip(lines.iter().skip(1)).filter(|((_, line), _)| line.contains("select! {"));
    let (biased, random): (Vec<_>, Vec<_>) = selects.partition(|(_, (_, next))| next.trim() == "biased;");
    assert!(biased.len() > 10 && random.is_empty(), "{random:?}");
}

#[test]
fn every_crate_is_a_room_that_can_be_looked_over() {
    let entries = fs::read_dir(repository().join("host")).unwrap().map(|entry| entry.unwrap().path());
    let crates: Vec<_> = entries.filter(|member| member.join("src").is_dir()).collect();
    assert!(crates.len() > 20, "the crates are found: {crates:?}");
    for member in crates {
        let entries = fs::read_dir(member.join("src")).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|entry| entry.is_file()).count();
        let sources = lines_of(&format!("{}/src", shown(&member)), |_| true).len();
        assert!(files <= 12, "{} has {files} files in its root", shown(&member));
        assert!((50..=15_000).contains(&sources), "{} has {sources} lines of source", shown(&member));
    }
}

/// A reader who wants to understand one of them would have to understand all at once.
#[test]
fn no_files_of_a_crate_take_names_from_each_other_in_a_circle() {
    let sources: Vec<_> = ["host", "guest-tools"]
        .iter()
        .flat_map(|folder| fs::read_dir(repository().join(folder)).unwrap())
        .map(|member| member.unwrap().path().join("src"))
        .filter(|sources| sources.is_dir())
        .collect();
    assert!(sources.len() > 20, "the crates are found: {sources:?}");
    let circles: Vec<BTreeSet<String>> = sources
        .iter()
        .flat_map(|sources| imports::circles_below(sources))
        .map(|circle| circle.iter().map(|file| shown(file)).collect())
        .collect();
    assert!(circles.is_empty(), "{circles:#?}");
}

/// Otherwise the test above could not fail.
#[test]
fn a_circle_of_files_is_found_through_reexports_and_one_in_tests_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a;\nmod b;\nmod c;\nmod shown { pub use crate::b::Second; }\npub use a::First;");
    write("a.rs", "pub struct First(crate::b::Second);\n#[cfg(test)]\nmod tests { use crate::c::third; }");
    write("b.rs", "use crate::First;\npub struct Second;\nimpl From<First> for Second {}");
    write("c.rs", "pub fn third(_: super::a::First) {}");
    let circles = imports::circles_below(folder.path());
    let names = |circle: &BTreeSet<PathBuf>| -> Vec<_> {
        circle.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(circles.iter().map(names).collect::<Vec<_>>(), [["a.rs", "b.rs"]]);
}

#[test]
fn no_file_is_longer_than_it_may_be() {
    let files = every_source();
    assert!(files.len() > 100, "{}", files.len());
    let too_long: Vec<_> = files
        .iter()
        .map(|file| (shown(file), fs::read_to_string(file).unwrap().lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .collect();
    assert_eq!(too_long, []);
}

#[test]
fn every_file_says_first_what_it_is() {
    let silent: Vec<_> = every_source()
        .iter()
        .filter(|file| !fs::read_to_string(file).unwrap().trim_start().starts_with("//!"))
        .map(|file| shown(file))
        .collect();
    assert_eq!(silent, [] as [&str; 0]);
}

#[test]
fn nothing_is_called_after_what_it_is_not() {
    const EMPTY_WORDS: [&str; 5] = ["common", "helpers", "manager", "misc", "utils"];
    let files = every_source();
    assert!(!files.is_empty());
    for file in files {
        let named = shown(&file);
        let empty = named.split(['/', '.']).any(|part| EMPTY_WORDS.contains(&part));
        assert!(!empty, "{named}");
    }
}

/// The sources of the crates that the two programs are made of, their unit tests in folders of their own
/// apart.
fn service_sources() -> Vec<PathBuf> {
    let crates = [READER, OUTBOUND, "agent-core", SERVICE, "agent-host", "agent-tool", "host-setup"]
        .into_iter()
        .chain(TOOL_RULES)
        .chain([EGRESS, GRANTS, MCP_CLIENT, MCP_SERVER, OPENAI])
        .chain(MIDDLES);
    let sources = crates.flat_map(|name| sources_below(&repository().join("host").join(name).join("src")));
    sources.filter(|file| !is_test(file)).collect()
}

/// The sources of the two programs with a line of code that `matches`.
fn files_where(matches: impl Fn(&str) -> bool) -> Vec<String> {
    let files = service_sources().into_iter();
    let files = files.filter(|file| code_of(file).iter().any(|(_, line)| matches(line)));
    files.map(|file| shown(&file)).collect()
}

/// Whether a file of a crate's sources has tests only, or what only tests of other crates enable.
fn is_test(file: &Path) -> bool {
    let is_testing = |part: &std::ffi::OsStr| part == "tests" || part == "testing" || part == "testing.rs";
    file.ends_with("tests.rs") || Path::new(&shown(file)).iter().any(is_testing)
}

/// Every Rust file of the repository.
fn every_source() -> Vec<PathBuf> {
    ["host", "guest-tools", "tests"]
        .iter()
        .flat_map(|folder| sources_below(&repository().join(folder)))
        .collect()
}

fn sources_below(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_owned()];
    }
    let entries = fs::read_dir(place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
            found.extend(sources_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Lines outside of the tests at the end of a file, with their numbers.
fn code_of(file: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().take_while(|line| *line != "mod tests {");
    let code = lines.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.map(|(index, line)| (index + 1, line.to_owned())).collect()
}

/// `file:line` and text of the lines of code that `matches`.
fn lines_of(place: &str, matches: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let files = sources_below(&repository().join(place));
    let files = files.into_iter().filter(|file| !is_test(file));
    let lines = files.flat_map(|file| {
        let name = shown(&file);
        code_of(&file).into_iter().map(move |(number, line)| (format!("{name}:{number}"), line))
    });
    lines.filter(|(_, line)| matches(line)).collect()
}

/// A path as it is seen from the root of the repository.
fn shown(file: &Path) -> String {
    file.strip_prefix(repository()).unwrap().display().to_string()
}
