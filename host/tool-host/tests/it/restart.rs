//! What a restart and another replica serve: the same, by memory or by rule.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tool_host::Config;

use crate::harness::{COMPILE, Host, Seen, compile_by_shell, config, killed, limits, put};
use crate::text::versioned as tool;

/// A tools folder and a cache folder that outlive the hosts over them.
struct Place {
    tools: TempDir,
    cache: TempDir,
}

impl Place {
    fn new() -> Self {
        let cache = tempfile::tempdir().unwrap();
        fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Self { tools: tempfile::tempdir().unwrap(), cache }
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        put(self.tools.path(), name, bytes);
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.tools.path().join(name)).unwrap();
    }

    async fn start(&self) -> Host {
        self.start_with(|_| {}).await
    }

    async fn start_with(&self, change: impl FnOnce(&mut Config)) -> Host {
        let (config, seen) = self.config(change);
        // The folder outlives the host: it has one of its own to clean up.
        Host::over(config, tempfile::tempdir().unwrap(), seen).await
    }

    /// A host that may still be compiling, by a shell that does the first of these for that file.
    async fn begin_compiling_by(&self, file: &str, same: &str, others: &str) -> Host {
        let (config, seen) = self.config(|config| {
            compile_by_shell(&mut config.compiler, &self.tools.path().join(file), same, others);
        });
        Host::begin(config, tempfile::tempdir().unwrap(), seen).await
    }

    fn config(&self, change: impl FnOnce(&mut Config)) -> (Config, Arc<Seen>) {
        let seen = Arc::new(Seen::default());
        let mut config = config(self.tools.path(), limits(), seen.clone());
        config.cache = Some(self.cache.path().to_owned());
        change(&mut config);
        (config, seen)
    }

    /// Files of the cache of that kind.
    fn cached(&self, extension: &str) -> Vec<std::path::PathBuf> {
        let files = fs::read_dir(self.cache.path()).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
    }
}

/// Which component answers.
async fn serving(host: &Host, tool: &str) -> String {
    host.call(tool, json!({})).await.receipt.component.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_a_name_keeps_it_over_a_restart() {
    let place = Place::new();
    place.put("b.wasm", &tool("same", 1));
    let first = place.start().await;
    place.put("a.wasm", &tool("same", 2));
    first.host.reload().await;
    let (owner, faults) = (serving(&first, "same").await, first.faults());
    assert!(
        owner.starts_with("b@") && faults[0].starts_with("a.wasm: offers the tool"),
        "{owner} {faults:?}"
    );
    drop(first);
    let second = place.start().await;
    assert_eq!((serving(&second, "same").await, second.faults()), (owner, faults));
    // A replica that does not remember goes by the rule.
    let replica = place.start_with(|config| config.cache = None).await;
    assert!(serving(&replica, "same").await.starts_with("a@"));
    assert!(replica.faults()[0].starts_with("b.wasm: offers the tool"), "{:?}", replica.faults());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_update_leaves_the_last_good_version_over_restarts() {
    let place = Place::new();
    place.put("a.wasm", &tool("one", 1));
    let first = place.start().await;
    let good = serving(&first, "one").await;
    place.put("a.wasm", b"garbage");
    first.host.reload().await;
    assert_eq!(serving(&first, "one").await, good);
    drop(first);
    for _ in 0..2 {
        let next = place.start().await;
        assert_eq!(serving(&next, "one").await, good);
        assert!(next.faults()[0].starts_with("a.wasm: is not a whole"), "{:?}", next.faults());
        assert_eq!(next.host.compile_counts(), (0, 1));
    }
    // Not the compiled code is remembered but the component: another version of this program compiles it
    // again.
    for compiled in place.cached("cwasm") {
        fs::remove_file(compiled).unwrap();
    }
    let next = place.start().await;
    assert_eq!((serving(&next, "one").await, next.host.compile_counts()), (good, (1, 0)));
    drop(next);
    // An update that came while nobody served.
    place.put("a.wasm", &tool("one", 2));
    let next = place.start().await;
    assert_eq!(next.faults(), [""; 0]);
    assert_eq!(next.names(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_removed_is_forgotten() {
    let place = Place::new();
    place.put("a.wasm", &tool("one", 1));
    place.put("b.wasm", &tool("two", 1));
    let first = place.start().await;
    place.remove("a.wasm");
    first.host.reload().await;
    drop(first);
    place.remove("b.wasm");
    let second = place.start().await;
    assert_eq!(second.names(), [""; 0]);
    place.put("a.wasm", b"garbage");
    place.put("b.wasm", b"garbage");
    second.host.reload().await;
    drop(second);
    assert_eq!(place.start().await.names(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_remembered_and_damaged_is_done_without() {
    let place = Place::new();
    place.put("a.wasm", &tool("one", 1));
    place.put("b.wasm", &tool("two", 1));
    drop(place.start().await);
    place.put("a.wasm", b"garbage");
    let damage = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    place.cached("original").iter().for_each(|path| damage(path));
    let host = place.start().await;
    assert_eq!(host.names(), ["two"]);
    drop(host);
    place.cached("memory").iter().for_each(|path| damage(path));
    let host = place.start().await;
    assert_eq!(host.names(), ["two"]);
    assert!(host.faults()[0].starts_with("a.wasm: is not a whole"), "{:?}", host.faults());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_compile_the_first_by_name_has_the_tool_whichever_is_done_first() {
    for slow in ["a", "b"] {
        let place = Place::new();
        place.put("a.wasm", &tool("same", 1));
        place.put("b.wasm", &tool("same", 2));
        // Holds up the one that is to be slow.
        let release = place.tools.path().join("release");
        let held_up = format!("while [ ! -e {} ]; do sleep 0.01; done; {COMPILE}", release.display());
        let host = place.begin_compiling_by(&format!("{slow}.wasm"), &held_up, COMPILE).await;
        let quick = if slow == "a" { "b" } else { "a" };
        host.until(|host| host.names() == ["same"]).await;
        assert!(serving(&host, "same").await.starts_with(&format!("{quick}@")), "it waits for nobody");
        assert_eq!(host.preparing(), [format!("{slow}.wasm")]);
        fs::write(&release, "").unwrap();
        host.until(|host| host.preparing().is_empty()).await;
        assert!(serving(&host, "same").await.starts_with("a@"), "{slow} was slow");
        assert!(host.faults()[0].starts_with("b.wasm: offers the tool"), "{:?}", host.faults());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_keeps_being_loaded_keeps_no_other_from_being_remembered() {
    let place = Place::new();
    place.put("b.wasm", &tool("one", 1));
    drop(place.start().await);
    // From now on nothing new compiles but what is wanted.
    place.put("a.wasm", &tool("never", 1));
    let host = place.begin_compiling_by("a.wasm", "exec sleep 1000", COMPILE).await;
    let first = serving(&host, "one").await;
    place.put("b.wasm", &tool("one", 2));
    host.until(|host| host.list_digests() != [first.clone()]).await;
    let second = serving(&host, "one").await;
    assert_eq!(host.preparing(), ["a.wasm"]);
    assert_ne!(first, second);
    let digest = second.split_once('@').unwrap().1;
    let is_remembered =
        || fs::read_to_string(&place.cached("memory")[0]).is_ok_and(|memory| memory.contains(digest));
    host.until(|_| is_remembered()).await;
    assert_eq!(host.preparing(), ["a.wasm"]);
    drop(host);
    place.remove("a.wasm");
    place.put("b.wasm", b"garbage");
    let host = place.start().await;
    assert_eq!(serving(&host, "one").await, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_versions_that_are_nobodys_last_good_one_do_not_pile_up() {
    let place = Place::new();
    place.put("a.wasm", &tool("same", 0));
    let host = place.start().await;
    for version in 1..5 {
        // Refused: the name is a's.
        place.put("b.wasm", &tool("same", version));
        host.host.reload().await;
        assert_eq!(host.faults().len(), 1);
        assert_eq!(place.cached("original").len(), 2, "a's, and what b may serve when a is gone");
    }
    for version in 5..8 {
        place.put("a.wasm", &tool("same", version));
        host.host.reload().await;
        assert_eq!(place.cached("original").len(), 2);
    }
    place.remove("a.wasm");
    host.host.reload().await;
    assert!(serving(&host, "same").await.starts_with("b@"));
    place.put("b.wasm", b"garbage");
    host.host.reload().await;
    assert_eq!(place.cached("original").len(), 1);
    drop(host);
    assert!(serving(&place.start().await, "same").await.starts_with("b@"), "its copy was kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_copy_is_mended_when_its_file_is_loaded() {
    let place = Place::new();
    place.put("a.wasm", &tool("one", 1));
    drop(place.start().await);
    let copy = place.cached("original").pop().unwrap();
    let whole = fs::read(&copy).unwrap();
    fs::write(&copy, vec![b'x'; whole.len()]).unwrap();
    drop(place.start().await);
    assert_eq!(fs::read(&copy).unwrap(), whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_good_version_whose_compiler_is_killed_is_given_up_after_three_attempts() {
    let place = Place::new();
    place.put("a.wasm", &tool("one", 1));
    drop(place.start().await);
    place.cached("cwasm").iter().for_each(|path| fs::remove_file(path).unwrap());
    place.put("a.wasm", b"garbage");
    place.put("b.wasm", &tool("one", 2));
    let attempts = place.cache.path().join("attempts");
    let host = place.begin_compiling_by("b.wasm", COMPILE, &killed(&attempts)).await;
    host.until(|host| host.names() == ["one"]).await;
    assert!(serving(&host, "one").await.starts_with("b@"), "its name is free");
    assert_eq!(fs::read_to_string(attempts).unwrap(), ".\n".repeat(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalog_is_bounded_and_who_does_not_fit_is_refused_by_name() {
    let place = Place::new();
    for (file, name) in [("a.wasm", "one"), ("b.wasm", "two"), ("c.wasm", "three")] {
        place.put(file, &tool(name, 1));
    }
    // Name, description and schema: 37 to 39 bytes, about a dozen tokens.
    let host = place.start_with(|config| config.catalog_tokens = 25).await;
    assert_eq!(host.names(), ["one", "two"]);
    let faults = host.faults();
    insta::assert_snapshot!(faults.join("\n"), @"c.wasm: adds 12 tokens to every model call, and all tools together may have 25, half of TOKEN_BUDGET_PER_REQUEST less 512 for the question and the last words; the largest are a.wasm 12, b.wasm 12, c.wasm 12: shorten descriptions, remove a file, or raise the budget");
}
