//! What the log tells an operator about a server's entry in the policy.

use super::fake::{Fake, text, tool, tools};
use super::{eventually, host, set_policy};
use crate::harness::{limits, logged};

/// What the warning of names begins with.
const LACKED: &str = "has no tools of these names";

#[test]
fn names_that_a_server_lacks_are_warned_of_once_for_each_set_of_them() {
    let log = logged(|lines| async move {
        let listed = |method: &str| {
            if method == "tools/list" { tools(&[tool("a", "Does it.")]) } else { text("done") }
        };
        let fake = Fake::new(move |method, _| listed(method)).await;
        let (host, home) = host(&fake.policy("allow = [\"a\", \"b\", \"c\"]"), limits(), |_| {}).await;
        assert_eq!(host.names(), ["docs_a"], "{:?}", host.faults());
        for (looks, warnings, lines_of_policy) in [
            (2, 1, "allow = [\"a\", \"b\", \"c\"]\nlimits = { timeout-ms = 5000 }"),
            (3, 2, "allow = [\"a\", \"c\"]"),
            (4, 2, "allow = [\"a\"]"),
        ] {
            set_policy(&host, &home, &fake.policy(lines_of_policy)).await;
            let warned = || lines.text().matches(LACKED).count();
            eventually(&host, |_| fake.count("tools/list") >= looks && warned() >= warnings).await;
        }
    });
    let warned: Vec<_> = log.lines().filter(|line| line.contains(LACKED)).collect();
    let [first, second] = warned.as_slice() else { panic!("{warned:#?}") };
    assert!(first.contains("WARN") && first.contains("mend allow"), "{first}");
    assert!(first.contains("server=\"docs\"") && first.contains("tools=\"b, c\""), "{first}");
    assert!(second.contains("tools=\"c\""), "{second}");
}

#[test]
fn a_command_without_a_path_is_told_that_it_may_need_one() {
    let command =
        |env: &str| format!("[[mcp]]\nname = \"docs\"\ncommand = \"/bin/false\"\nallow = [\"a\"]\n{env}\n");
    for (env, is_told) in [("", true), ("env = { LANG = \"C\" }", true), ("env = { PATH = \"/bin\" }", false)]
    {
        let log = logged(|_lines| async {
            let (host, _home) = host(&command(env), limits(), |_| {}).await;
            assert_eq!(host.faults().len(), 1);
        });
        let of_server = |line: &&str| line.contains("an MCP server did not list its tools");
        let line = log.lines().find(of_server).unwrap_or_else(|| panic!("{env}: {log}"));
        assert_eq!(line.contains("it has no PATH"), is_told, "{line}");
        assert_eq!(line.contains("env = { PATH = "), is_told, "{line}");
    }
}

#[test]
fn a_server_on_a_private_address_is_told_of_with_the_line_that_allows_it() {
    let log = logged(|_lines| async {
        let fake = Fake::new(|_, _| tools(&[tool("a", "Does it.")])).await;
        let policy = fake.policy("allow = [\"a\"]").replace("private = true\n", "");
        let (host, _home) = host(&policy, limits(), |_| {}).await;
        assert_eq!(host.faults().len(), 1);
    });
    let line = log.lines().find(|line| line.contains("a request to an MCP server failed"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("127.0.0.1 (loopback)") && line.contains("`private = true`"), "{line}");
}
