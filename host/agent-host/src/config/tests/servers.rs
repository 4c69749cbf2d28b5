//! Servers that a setting names: what goes with which of them.

use super::*;

#[test]
fn a_queue_has_shards_in_a_cluster_only() {
    let shards = |url: &str| match read("b", &[("REDIS_URL", url), ("QUEUE_SHARDS", "3")]).stores.key_value {
        Some(KeyValue::Redis(address)) => address.queue_shards,
        _ => 0,
    };
    assert_eq!(shards("redis+cluster://h1:6379,h2:6379"), 3);
    check("b", &[("REDIS_URL", "redis://h"), ("QUEUE_SHARDS", "1")], &[]);
    for url in ["redis://h", "rediss://h", "redis+sentinel://h1,h2/main"] {
        check("b", &[("REDIS_URL", url), ("QUEUE_SHARDS", "2")], &["QUEUE_SHARDS"]);
    }
    let warnings = read("b", &[("QUEUE_SHARDS", "2")]).warnings;
    assert!(warnings.iter().any(|warning| warning.contains("QUEUE_SHARDS")), "{warnings:?}");
}

#[test]
fn a_login_to_a_registry_is_whole_or_none() {
    let all = [
        ("TOOLS_REGISTRY", "registry.example.org:5000"),
        ("TOOLS_REGISTRY_USER", "publisher"),
        ("TOOLS_REGISTRY_PASSWORD", "hunter2"),
    ];
    let login = read("a", &all).tools.registry.unwrap();
    assert_eq!((&*login.registry, &*login.user), ("registry.example.org:5000", "publisher"));
    assert!(!format!("{login:?}").contains("hunter2"), "{login:?}");
    let [registry, user, password] = all;
    check("a", &[registry, user], &["TOOLS_REGISTRY_PASSWORD"]);
    check("a", &[registry], &["TOOLS_REGISTRY_USER"]);
    check("a", &[user, password], &["TOOLS_REGISTRY"]);
    for (name, bad) in [
        ("TOOLS_REGISTRY", "https://registry.example.org"),
        ("TOOLS_REGISTRY", "registry/path"),
        ("TOOLS_REGISTRY", "publisher@registry"),
        ("TOOLS_REGISTRY_USER", "publisher:hunter2"),
    ] {
        let others = all.into_iter().filter(|(other, _)| *other != name);
        check("a", &[(name, bad)].into_iter().chain(others).collect::<Vec<_>>(), &[name]);
    }
}

/// Other clients of registries take user and password in one text.
#[test]
fn a_password_in_the_wrong_setting_of_a_login_is_not_shown() {
    for (name, bad) in [
        ("TOOLS_REGISTRY", "alice:hunter2@registry.example.org"),
        ("TOOLS_REGISTRY", "https://alice:hunter2@registry.example.org"),
        ("TOOLS_REGISTRY_USER", "alice:hunter2"),
    ] {
        let said = Config::from_vars(&vars("a", &[(name, bad)])).unwrap_err().to_string();
        assert!(said.contains(name) && !said.contains("hunter2") && !said.contains("alice"), "{said}");
    }
}

#[test]
fn recording_the_http_of_tools_needs_a_database() {
    check("a", &[("TOOLS_RECORD_HTTP", "on")], &["DATABASE_URL"]);
    check("a", &[("TOOLS_RECORD_HTTP", "on"), ("DATABASE_URL", "x://y")], &["DATABASE_URL"]);
    check("a", &[("TOOLS_RECORD_HTTP", "on"), ("DATABASE_URL", "sqlite://agent.db")], &[]);
    check("a", &[("TOOLS_RECORD_HTTP", "off")], &[]);
}
