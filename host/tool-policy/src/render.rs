//! Grants as the text that means them: what is suggested to operators, and what digests are of.
//!
//! The text is canonical: defaults are left out and everything is sorted, so that equal grants have equal
//! texts, and [`file::parse`](super::file::parse) makes the same grants of it.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Write as _};

use super::model::approve::ApproveRule;
use super::model::{
    CallLimits, ComponentPolicy, HttpRule, McpRule, McpTransport, Placement, Scheme, SecretRule,
    SecretSource, default_methods,
};

pub fn policy<'a>(
    components: impl Iterator<Item = &'a ComponentPolicy>,
    rolls_back_on_traps: bool,
) -> String {
    let mut top = String::new();
    if !rolls_back_on_traps {
        line(&mut top, "rollback-on-traps", false);
    }
    top + &components.map(component).collect::<Vec<_>>().join("\n")
}

/// One `[[component]]` or `[[mcp]]` with all that belongs to it.
pub fn component(entry: &ComponentPolicy) -> String {
    if let Some(rule) = &entry.mcp {
        return server(entry, rule);
    }
    let mut text = String::from("[[component]]\n");
    line(&mut text, "name", Quoted(&entry.name));
    one_or_more(&mut text, "digest", entry.binding.digests.iter());
    one_or_more(&mut text, "signer", entry.binding.signers.iter());
    audience(&mut text, entry);
    if entry.toolbox {
        line(&mut text, "toolbox", true);
    }
    if entry.ask {
        line(&mut text, "ask", true);
    }
    if !entry.config.is_empty() {
        let pairs = entry.config.iter().map(|(key, value)| format!("{} = {}", Quoted(key), Quoted(value)));
        line(&mut text, "config", inline(pairs));
    }
    if !entry.rename.is_empty() {
        let pairs = entry.rename.iter().map(|(old, new)| format!("{} = {}", Quoted(old), Quoted(new)));
        line(&mut text, "rename", inline(pairs));
    }
    let limits = limits(&entry.limits);
    if !limits.is_empty() {
        line(&mut text, "limits", inline(limits.iter().map(|(key, value)| format!("{key} = {value}"))));
    }
    if let Some(rule) = entry.key_value {
        let scope = format!("scope = {}", Quoted(rule.scope.as_str()));
        line(&mut text, "key-value", inline([scope, format!("bytes = {}", rule.bytes)].into_iter()));
    }
    approve(&mut text, entry.approve.as_ref());
    entry.http.iter().for_each(|rule| http(&mut text, rule));
    for (name, rule) in &entry.secrets {
        text.push_str("[[component.secret]]\n");
        secret(&mut text, name, rule);
        line(&mut text, "hosts", List(&rule.hosts));
    }
    text
}

/// One `[[mcp]]`. What follows from its address is left out.
fn server(entry: &ComponentPolicy, rule: &McpRule) -> String {
    let mut text = String::from("[[mcp]]\n");
    line(&mut text, "name", Quoted(&entry.name));
    one_or_more(&mut text, "digest", entry.binding.digests.iter());
    audience(&mut text, entry);
    match &rule.transport {
        McpTransport::Http { url } => {
            line(&mut text, "url", Quoted(url));
            if entry.http.iter().any(|rule| rule.scheme == Scheme::Http) {
                line(&mut text, "plain-http", true);
            }
            if entry.http.iter().any(|rule| rule.private) {
                line(&mut text, "private", true);
            }
        }
        McpTransport::Command { program, arguments, environment } => {
            line(&mut text, "command", Quoted(program));
            if !arguments.is_empty() {
                let quoted: Vec<_> = arguments.iter().map(|argument| Quoted(argument).to_string()).collect();
                line(&mut text, "args", format_args!("[{}]", quoted.join(", ")));
            }
            if !environment.is_empty() {
                let pairs =
                    environment.iter().map(|(key, value)| format!("{} = {}", Quoted(key), Quoted(value)));
                line(&mut text, "env", inline(pairs));
            }
        }
    }
    line(&mut text, "allow", List(&rule.allow));
    let limits = [
        ("timeout-ms", entry.limits.timeout_ms),
        ("output-bytes", entry.limits.output_bytes),
        ("memory-bytes", entry.limits.memory_bytes),
        ("concurrency", rule.concurrency.map(u64::from)),
    ];
    let limits: Vec<_> =
        limits.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}", value?))).collect();
    if !limits.is_empty() {
        line(&mut text, "limits", inline(limits.into_iter()));
    }
    approve(&mut text, entry.approve.as_ref());
    for (name, rule) in &entry.secrets {
        text.push_str("[[mcp.secret]]\n");
        secret(&mut text, name, rule);
    }
    text
}

/// A word where everything else is as by default.
fn approve(text: &mut String, rule: Option<&ApproveRule>) {
    let Some(rule) = rule else { return };
    let standard = ApproveRule::new(rule.when);
    if *rule == standard {
        return line(text, "approve", Quoted(rule.when.as_str()));
    }
    let ApproveRule { when, unhinted, pass, deciders, within_s, on_expiry } = rule;
    let mut pairs = vec![format!("when = {}", Quoted(when.as_str()))];
    let mut add = |is_other: bool, pair: String| pairs.extend(is_other.then_some(pair));
    add(*unhinted, "unhinted = true".to_owned());
    if let Some(pass) = pass {
        add(true, format!("pass = {}", Quoted(&pass.text)));
    }
    for (key, names) in [("users", &deciders.users), ("tiers", &deciders.tiers), ("roles", &deciders.roles)] {
        add(!names.is_empty(), format!("{key} = {}", List(names)));
    }
    add(deciders.count != standard.deciders.count, format!("count = {}", deciders.count));
    add(!deciders.own, "own = false".to_owned());
    add(*within_s != standard.within_s, format!("within-s = {within_s}"));
    add(*on_expiry != standard.on_expiry, format!("on-expiry = {}", Quoted(on_expiry.as_str())));
    line(text, "approve", inline(pairs.into_iter()));
}

fn audience(text: &mut String, entry: &ComponentPolicy) {
    let audience = &entry.audience;
    for (key, names) in [("users", &audience.users), ("tiers", &audience.tiers), ("roles", &audience.roles)] {
        if let Some(names) = names {
            line(text, key, List(names));
        }
    }
}

pub(crate) fn http(text: &mut String, rule: &HttpRule) {
    text.push_str("[[component.http]]\n");
    line(text, "scheme", Quoted(rule.scheme.as_str()));
    line(text, "host", Quoted(&rule.host));
    if rule.port != rule.scheme.default_port() {
        line(text, "port", rule.port);
    }
    if rule.methods != default_methods() {
        line(text, "methods", List(&rule.methods));
    }
    if rule.path.as_str() != "/" {
        line(text, "path", Quoted(&rule.path));
    }
    if rule.private {
        line(text, "private", true);
    }
}

/// What an entry grants, a text for each grant, for comparing what two versions of a component are granted.
pub(crate) fn grants(entry: &ComponentPolicy) -> Vec<String> {
    let mut grants: Vec<_> = entry.http.iter().map(describe).collect();
    grants.extend(entry.secrets.iter().map(|(name, rule)| {
        let hosts: Vec<_> = rule.hosts.iter().map(ToString::to_string).collect();
        format!("the secret {name} for {}", hosts.join(", "))
    }));
    grants.extend(
        entry
            .key_value
            .map(|rule| format!("{} bytes of values for each {}", rule.bytes, rule.scope.as_str())),
    );
    grants.extend(entry.mcp.iter().map(|rule| match &rule.transport {
        McpTransport::Http { url } => format!("the MCP server at {url}"),
        McpTransport::Command { program, .. } => format!("the MCP server {program} as a child process"),
    }));
    grants.extend(entry.toolbox.then(|| "calls of the other tools".to_owned()));
    grants.extend(entry.ask.then(|| "questions to people".to_owned()));
    grants
}

/// A line in one line.
pub(crate) fn describe(rule: &HttpRule) -> String {
    let methods = rule.methods.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let private = if rule.private { ", private addresses too" } else { "" };
    format!("{methods} {}://{}:{}{}{private}", rule.scheme, rule.host, rule.port, rule.path)
}

fn secret(text: &mut String, name: &str, rule: &SecretRule) {
    line(text, "name", Quoted(name));
    match &rule.source {
        SecretSource::Env(variable) => line(text, "env", Quoted(variable)),
        SecretSource::File(path) => line(text, "file", Quoted(path.display())),
    }
    match &rule.placement {
        Placement::Header { name, prefix } => {
            line(text, "header", Quoted(name));
            if !prefix.is_empty() {
                line(text, "prefix", Quoted(prefix));
            }
        }
        Placement::Query(key) => line(text, "query", Quoted(key)),
        Placement::Basic { user } => line(text, "basic", Quoted(user)),
        Placement::Variable(name) => line(text, "variable", Quoted(name)),
    }
}

/// Limits that are not the defaults.
fn limits(limits: &CallLimits) -> Vec<(&'static str, u64)> {
    let standard = CallLimits::default();
    let differing = |value: u64, standard: u64| (value != standard).then_some(value);
    let all = [
        ("timeout-ms", limits.timeout_ms),
        ("memory-bytes", limits.memory_bytes),
        ("output-bytes", limits.output_bytes),
        ("fuel", limits.fuel),
        ("requests", differing(limits.requests.into(), standard.requests.into())),
        (
            "concurrent-requests",
            differing(limits.concurrent_requests.into(), standard.concurrent_requests.into()),
        ),
        ("http-bytes", differing(limits.http_bytes, standard.http_bytes)),
    ];
    all.into_iter().filter_map(|(key, value)| value.map(|value| (key, value))).collect()
}

fn line(text: &mut String, key: &str, value: impl Display) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{key} = {value}");
}

fn one_or_more<T: Display>(text: &mut String, key: &str, values: impl ExactSizeIterator<Item = T>) {
    let single = values.len() == 1;
    let mut quoted = values.map(|value| Quoted(value).to_string()).collect::<Vec<_>>();
    match quoted.pop() {
        None => {}
        Some(value) if single => line(text, key, value),
        Some(last) => {
            quoted.push(last);
            line(text, key, format_args!("[{}]", quoted.join(", ")));
        }
    }
}

fn inline(pairs: impl Iterator<Item = String>) -> String {
    format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
}

struct List<'a, T>(&'a BTreeSet<T>);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.0.iter().map(|value| Quoted(value).to_string()).collect::<Vec<_>>();
        write!(f, "[{}]", values.join(", "))
    }
}

/// A text as a basic string of TOML.
pub(super) struct Quoted<T>(pub(super) T);

impl<T: Display> Display for Quoted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.to_string().chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\U{:08X}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}
