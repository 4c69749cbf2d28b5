//! `agent-host docs`: the documentation of the version that runs.

use acceptance::Service;
use serde_json::Value;

#[tokio::test]
async fn the_command_lists_the_pages_and_shows_one() {
    let list = Service::command(&["docs"]).run().await;
    assert_eq!(list.code, Some(0), "{}", list.stderr);
    let named = |name: &str| list.stdout.lines().any(|line| line.split_whitespace().next() == Some(name));
    assert!(
        named("api/streams") && named("reference/settings") && named("deploy/runbook"),
        "{}",
        list.stdout
    );

    let page = Service::command(&["docs", "streams"]).run().await;
    assert_eq!(page.code, Some(0), "{}", page.stderr);
    assert!(page.stdout.starts_with("# Streams\n\nAfter this page you"), "{}", page.stdout);

    let listed: Value =
        serde_json::from_str(&Service::command(&["docs", "--json"]).run().await.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), list.stdout.lines().count());
    let shown = Service::command(&["docs", "api/streams", "--json"]).run().await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&shown["page"], &shown["text"]), (&Value::from("api/streams"), &Value::from(page.stdout)));
}
