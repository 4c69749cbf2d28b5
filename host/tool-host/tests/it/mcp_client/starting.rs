//! Servers at a start: one that never lists its tools, one that is slow beside the store of versions, and one
//! that the policy no longer has.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agent_core::ports::{ToolAdmin, Toolbox};
use agent_core::testing::TestToolVersions;
use agent_core::words::ToolOutcome;
use serde_json::json;

use super::fake::{Fake, Reply, text, tool, tools};
use super::{fault, host, set_policy};
use crate::harness::{Host, Seen, config, limits, policy};
use crate::text::Text;

fn listed(method: &str) -> Reply {
    if method == "tools/list" { tools(&[tool("a", "Does it.")]) } else { text("done") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_lists_its_tools_is_a_fault_and_the_others_serve() {
    const LIMIT: Duration = Duration::from_millis(500);
    let fake = Fake::new(|_, _| Reply::Hang).await;
    let (policy, _home) = policy(&fake.policy("allow = [\"a\"]"));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text.wasm"), Text::default().component()).unwrap();
    let seen = Arc::new(Seen::default());
    let mut config = config(folder.path(), limits(), seen.clone());
    (config.policy, config.mcp_look_limit) = (policy, LIMIT);
    let begun = Instant::now();
    let host = Host::begin(config, folder, seen).await;
    tokio::select! {
        () = host.host.watch() => unreachable!("following never ends"),
        prepared = tokio::time::timeout(Duration::from_secs(20), host.host.prepared()) => {
            prepared.expect("one server that hangs is not waited for");
        }
    }
    assert!(begun.elapsed() >= LIMIT, "the server was waited for: {:?}", begun.elapsed());
    assert!(fake.count("tools/list") >= 1);
    assert_eq!(host.names(), ["text"]);
    let said = fault(&host);
    assert!(said.contains("does not answer"), "{said}");
    assert_eq!(host.call("text", json!({})).await.receipt.outcome, ToolOutcome::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_store_answers_while_it_is_looked_at_has_no_fault() {
    let store = Arc::new(TestToolVersions::default());
    // As a database whose tables are made a moment later.
    store.switch.fail(true);
    let (looks, away) = (AtomicUsize::new(0), store.clone());
    let fake = Fake::new(move |method, _| {
        if method == "tools/list" && looks.fetch_add(1, Ordering::Relaxed) == 0 {
            away.switch.fail(false);
            return Reply::Hang;
        }
        listed(method)
    })
    .await;
    let (host, _home) =
        host(&fake.policy("allow = [\"a\"]"), limits(), |config| config.versions = Some(store)).await;
    assert_eq!((host.faults(), host.names()), (vec![], vec!["docs_a".to_owned()]));
    let faults = host.seen.faults.lock();
    assert!(faults.iter().all(Vec::is_empty), "none at any time: {faults:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_taken_out_of_the_policy_is_no_broken_file_and_returns_with_its_entry() {
    let store = Arc::new(TestToolVersions::default());
    let fake = Fake::new(|method, _| listed(method)).await;
    let policy = fake.policy("allow = [\"a\"]");
    let (first, _home) = host(&policy, limits(), |config| config.versions = Some(store.clone())).await;
    assert_eq!(first.names(), ["docs_a"], "{:?}", first.faults());
    drop(first);

    // Another machine, which remembers nothing.
    let cache = tempfile::tempdir().unwrap();
    let (host, home) = host("# Nothing.\n", limits(), |config| {
        config.versions = Some(store);
        config.cache = Some(cache.path().to_owned());
    })
    .await;
    assert_eq!((host.faults(), host.names()), (vec![], vec![]));
    host.until(|host| host.host.list().is_empty()).await;
    let view = host.host.get("docs").await.unwrap();
    assert_eq!(view.record.active, None, "{:?}", view.record);
    let faults = host.seen.faults.lock().clone();
    assert!(faults.iter().all(Vec::is_empty), "none at any time: {faults:?}");

    set_policy(&host, &home, &policy).await;
    host.until(|host| host.names() == ["docs_a"]).await;
}
