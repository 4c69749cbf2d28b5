//! The policy under which a component is tested: everything that its cases mock, and nothing real.
//!
//! Requests to every public host are let through to what answers them instead of the network, so that one
//! that no case awaits is named and not merely denied.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use crate::cases::Case;

/// What is granted beside requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct NeededGrants {
    /// The component sends requests.
    pub http: bool,
    /// The component keeps values.
    pub key_value: bool,
    /// The component calls other tools.
    pub toolbox: bool,
    /// The component asks people in the middle of a call.
    pub ask: bool,
}

/// What a secret of a test is called in the environment that the policy reads.
const VARIABLE: &str = "TOOL_TEST_SECRET_";

/// What every secret of a test holds, before its name.
const VALUE: &str = "mocked-value-of-the-secret-";

/// Every method that a tool may use.
const METHODS: &str = r#"["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]"#;

/// A host that nobody has, for secrets of cases without requests.
const NOBODY: &str = "nobody.example";

/// The policy for a component under one case, as text.
pub fn policy((name, digest): (&str, &str), wants: NeededGrants, case: Option<&Case>) -> String {
    let mut text = String::from("# Made for this test.\n[[component]]\n");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "name = {}\ndigest = {}", Quoted(name), Quoted(digest));
    if wants.toolbox {
        text.push_str("toolbox = true\n");
    }
    if wants.ask {
        text.push_str("ask = true\n");
    }
    if wants.key_value {
        // Of the component: the calls of a test are of no user.
        text.push_str("key-value = { scope = \"component\", bytes = 1048576 }\n");
    }
    let none = (BTreeMap::new(), BTreeSet::new());
    let (config, secrets) = case.map_or((&none.0, &none.1), |case| (&case.config, &case.secrets));
    if !config.is_empty() {
        let pairs: Vec<_> =
            config.iter().map(|(key, value)| format!("{} = {}", Quoted(key), Quoted(value))).collect();
        let _ = writeln!(text, "config = {{ {} }}", pairs.join(", "));
    }
    if !wants.http && secrets.is_empty() {
        return text;
    }
    for scheme in ["https", "http"] {
        line(&mut text, scheme, "*", None);
    }
    let mut hosts = case.map(origins).unwrap_or_default();
    if hosts.is_empty() && !secrets.is_empty() {
        hosts.insert(("https".to_owned(), NOBODY.to_owned(), None));
    }
    for (scheme, host, port) in &hosts {
        line(&mut text, scheme, host, *port);
    }
    let names: BTreeSet<_> = hosts.iter().map(|(_, host, _)| Quoted(host).to_string()).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    for (number, secret) in secrets.iter().enumerate() {
        let _ = write!(
            text,
            "[[component.secret]]\nname = {}\nenv = \"{VARIABLE}{number}\"\nheader = \"x-tool-test-secret-{number}\"\n\
             hosts = [{names}]\n",
            Quoted(secret)
        );
    }
    text
}

/// The value of a variable that the policy reads secrets from.
pub fn secret_value(variable: &str) -> Option<String> {
    Some(format!("{VALUE}{}", variable.strip_prefix(VARIABLE)?))
}

type Origin = (String, String, Option<u16>);

/// Where the requests of a case go.
fn origins(case: &Case) -> BTreeSet<Origin> {
    let origin = |url: &str| {
        let (scheme, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port.parse().ok()),
            _ => (authority, None),
        };
        Some((scheme.to_ascii_lowercase(), host.to_ascii_lowercase(), port))
    };
    case.http.iter().filter_map(|line| origin(&line.url)).collect()
}

fn line(text: &mut String, scheme: &str, host: &str, port: Option<u16>) {
    let _ = write!(
        text,
        "[[component.http]]\nscheme = \"{scheme}\"\nhost = {}\nmethods = {METHODS}\n",
        Quoted(host)
    );
    if let Some(port) = port {
        let _ = writeln!(text, "port = {port}");
    }
    // Nothing is connected, so an address of this machine is as good as another.
    if host != "*" {
        text.push_str("private = true\n");
    }
}

/// A text as a basic string of TOML.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                char if char.is_control() => write!(f, "\\U{:08X}", u32::from(char))?,
                char => f.write_char(char)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    const IDENTITY: (&str, &str) = ("rates", "sha256:00");

    #[test]
    fn a_policy_has_what_its_case_mocks() {
        let file = cases::parse(
            "[[case]]\nexpect = {output = \"\"}\nsecrets = [\"key\"]\nconfig = {a = \"b\\\"\\n\"}\n\
             http = [{url = \"https://API.example.org/x\"}, {url = \"http://127.0.0.1:8080\"}]",
        );
        let wants = NeededGrants { http: true, key_value: true, toolbox: false, ask: false };
        insta::assert_snapshot!(policy(IDENTITY, wants, file.unwrap().cases.first()), @r#"
        # Made for this test.
        [[component]]
        name = "rates"
        digest = "sha256:00"
        key-value = { scope = "component", bytes = 1048576 }
        config = { "a" = "b\"\U0000000A" }
        [[component.http]]
        scheme = "https"
        host = "*"
        methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        [[component.http]]
        scheme = "http"
        host = "*"
        methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        [[component.http]]
        scheme = "http"
        host = "127.0.0.1"
        methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        port = 8080
        private = true
        [[component.http]]
        scheme = "https"
        host = "api.example.org"
        methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        private = true
        [[component.secret]]
        name = "key"
        env = "TOOL_TEST_SECRET_0"
        header = "x-tool-test-secret-0"
        hosts = ["127.0.0.1", "api.example.org"]
        "#);
        assert_eq!(secret_value("TOOL_TEST_SECRET_0").as_deref(), Some("mocked-value-of-the-secret-0"));
        assert_eq!(secret_value("HOME"), None);
    }

    #[test]
    fn without_a_case_requests_go_through_and_nothing_else() {
        assert!(
            policy(IDENTITY, NeededGrants { http: true, ..NeededGrants::default() }, None)
                .contains("host = \"*\"")
        );
        insta::assert_snapshot!(policy(IDENTITY, NeededGrants::default(), None), @r#"
        # Made for this test.
        [[component]]
        name = "rates"
        digest = "sha256:00"
        "#);
    }
}
