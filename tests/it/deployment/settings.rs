//! Every variable that something in host/deploy/ sets is a setting, and a service starts with the values.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use acceptance::{Service, repository};
use serde_json::Value;

use super::{list, manifest, string, text, yaml};

/// Variables and their values, as one way of running the service sets them.
type Variables = BTreeMap<String, String>;

/// Every setting there is: `.env.example` has them all (see `documents.rs`).
fn settings() -> BTreeSet<String> {
    let file = fs::read_to_string(repository().join(".env.example")).unwrap();
    let names = file.lines().filter_map(|line| Some(line.trim_start_matches('#').split_once('=')?.0));
    let names: BTreeSet<_> = names.filter(|name| is_variable(name)).map(str::to_owned).collect();
    assert!(names.len() > 40, "{names:?}");
    names
}

fn is_variable(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

fn variables(value: &Value) -> Variables {
    let fields = value.as_object().unwrap_or_else(|| panic!("{value} is no mapping"));
    fields.iter().map(|(name, value)| (name.clone(), string(value).to_owned())).collect()
}

fn of_kubernetes() -> Variables {
    let container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0].take();
    let mut all = variables(&manifest("ConfigMap")["data"]);
    all.append(&mut variables(&manifest("Secret")["stringData"]));
    let direct = list(&container["env"]).iter();
    all.extend(direct.map(|one| (string(&one["name"]).to_owned(), string(&one["value"]).to_owned())));
    all
}

fn of_systemd() -> Variables {
    let (unit, file) = (text("systemd/agent-host.service"), text("systemd/agent-host.env.example"));
    let direct = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
    let lines = direct.chain(file.lines().filter(|line| !line.starts_with('#')));
    let split = lines.filter_map(|line| line.split_once('='));
    split.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn of_compose() -> Variables {
    let service = yaml("compose.yaml").remove(0)["services"]["agent-host"]["environment"].take();
    let filled_in = |(name, value): (String, String)| (name, fill_in(&value));
    variables(&service).into_iter().map(filled_in).collect()
}

/// What the value is when whoever starts it sets no more than they must: `${NAME:-default}` and
/// `${NAME:?message}`.
fn fill_in(value: &str) -> String {
    let Some((before, rest)) = value.split_once("${") else { return value.to_owned() };
    let (variable, after) = rest.split_once('}').expect("an opened variable is closed");
    let value = variable.split_once(":-").map_or("set-by-somebody", |(_, default)| default);
    format!("{before}{value}{}", fill_in(after))
}

fn ways() -> [(&'static str, Variables); 3] {
    [("Kubernetes", of_kubernetes()), ("systemd", of_systemd()), ("compose", of_compose())]
}

#[test]
fn every_variable_that_is_set_is_a_setting() {
    let settings = settings();
    for (way, variables) in ways() {
        assert!(variables.len() > 5, "{way}: {variables:?}");
        let unknown: Vec<_> = variables.keys().filter(|name| !settings.contains(*name)).collect();
        assert_eq!(unknown, [] as [&String; 0], "{way}");
    }
}

#[test]
fn every_variable_that_the_texts_name_is_a_setting() {
    let settings = settings();
    for file in ["README.md", "runbook.md"] {
        let text = text(file);
        let words = text.split('`').skip(1).step_by(2);
        let names = words.filter_map(|word| word.split('=').next());
        let names: Vec<_> = names.filter(|name| is_variable(name) && name.contains('_')).collect();
        assert!(!names.is_empty(), "{file}");
        let unknown: Vec<_> = names.into_iter().filter(|name| !settings.contains(*name)).collect();
        assert_eq!(unknown, [] as [&str; 0], "{file}");
    }
}

/// Otherwise all callers have the proxy's address, and share one rate window. No caller of another machine
/// gets past it with a header of its own.
#[test]
fn each_believes_the_proxy_that_stands_before_it() {
    for (way, variables) in ways() {
        assert_eq!(variables.get("TRUST_PROXY").map(String::as_str), Some("1"), "{way}");
    }
    let ports = yaml("compose.yaml").remove(0)["services"]["agent-host"]["ports"].take();
    assert!(list(&ports).iter().all(|port| string(port).starts_with("127.0.0.1:")), "{ports}");
}

#[tokio::test]
async fn a_service_starts_with_the_values_of_each() {
    // Where things are is another matter on this machine.
    let of_the_place =
        ["HOST", "PORT", "TOOLS_DIR", "TOOLS_CACHE_DIR", "DATABASE_URL", "REDIS_URL", "LLM_BASE_URL"];
    for (way, variables) in ways() {
        let said: BTreeSet<_> = variables.keys().map(String::as_str).collect();
        let needed =
            ["SERVICE_VARIANT", "JWT_SECRET", "LLM_API_KEY", "DATABASE_URL", "REDIS_URL", "NODE_ENV"];
        assert!(needed.iter().all(|name| said.contains(name)), "{way} lacks one of {needed:?}: {said:?}");
        let mut builder = Service::variant_b();
        for (name, value) in variables.iter().filter(|(name, _)| !of_the_place.contains(&name.as_str())) {
            builder = builder.env(name, value);
        }
        let service = builder.start().await;
        assert_eq!(service.get("/").await.status, 200, "{way}");
        service.stop().await;
    }
}
