//! `[[mcp]]`: what its keys mean, and addresses and names that cannot be.

use super::*;

pub(super) const KEYS: &str = "name, digest, users, tiers, roles, url, plain-http, private, command, args, env, allow, limits, secret, approve";

fn mistakes(lines: &str) -> Vec<String> {
    let problems = parse(lines).unwrap_err();
    problems.all().iter().map(ToString::to_string).collect()
}

#[test]
fn a_server_is_read_and_written_as_the_same_grants() {
    let over_http = "[[mcp]]\nname = \"docs\"\nurl = \"https://MCP.example.org:8443/mcp/\"\nallow = [\"search\", \"getUser\"]\n\
                     tiers = [\"premium\"]\nlimits = { timeout-ms = 5000, output-bytes = 65536, concurrency = 4 }\n\
                     [[mcp.secret]]\nname = \"key\"\nenv = \"DOCS_KEY\"\nheader = \"Authorization\"\nprefix = \"Bearer \"\n";
    let child = "[[mcp]]\nname = \"local\"\ncommand = \"/usr/bin/node\"\nargs = [\"server.js\"]\nenv = { LANG = \"C\" }\n\
                 allow = [\"run\"]\n[[mcp.secret]]\nname = \"key\"\nfile = \"secrets\"\nvariable = \"API_KEY\"\n";
    let read = policy(&format!("{over_http}{child}"));
    let docs = read.mcp("docs").unwrap();
    let rule = docs.http.iter().next().unwrap();
    assert_eq!(
        (rule.scheme, rule.port, rule.path.as_str(), rule.private),
        (Scheme::Https, 8443, "/mcp", false)
    );
    assert_eq!((docs.http.len(), &rule.methods), (1, &set(["DELETE", "GET", "POST"])));
    assert_eq!(docs.secrets["key"].hosts, [rule.host.clone()].into());
    assert_eq!(docs.mcp.as_ref().unwrap().concurrency, Some(4));
    let local = read.mcp("local").unwrap();
    assert!(local.http.is_empty() && local.secrets["key"].hosts.is_empty());
    assert_eq!(local.secrets["key"].placement, Placement::Variable("API_KEY".into()));
    assert!(docs.takes_any_version() && docs.is_for("sha256:whatever", None));
    for entry in read.entries() {
        let again = policy(&render::component(entry));
        assert_eq!(again.entries(), std::slice::from_ref(entry), "{}", render::component(entry));
    }
    let bound = policy(&over_http.replace("[[mcp]]", &format!("[[mcp]]\ndigest = \"{}\"", digest('b'))));
    let docs = bound.mcp("docs").unwrap();
    assert!(docs.is_for(&digest('b'), None) && !docs.is_for(&digest('c'), None));
}

#[test]
fn addresses_and_names_that_cannot_be_are_said_with_their_place() {
    for url in
        ["https://u:p@a.test", "https://a.test/x?y=1", "https://a.test/#x", "ftp://a.test", "a.test", ""]
    {
        let found = mistakes(&format!("[[mcp]]\nname = \"a\"\nurl = \"{url}\"\nallow = [\"x\"]"));
        assert!(found.len() == 1 && found[0].starts_with("line 3, column 7: url: found"), "{url}: {found:?}");
    }
    for name in ["A", "1a", "a.b", "", &"a".repeat(25)] {
        let found =
            mistakes(&format!("[[mcp]]\nname = \"{name}\"\nurl = \"https://a.test\"\nallow = [\"x\"]"));
        assert!(
            found.len() == 1 && found[0].starts_with("line 2, column 8: name: found"),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn the_documented_example_has_every_key_of_a_server() {
    let example = include_str!("../example.toml");
    let read = policy(example);
    assert!(read.mcp("wiki").is_some() && read.mcp("worker").is_some());
    let servers = &example[example.find("[[mcp]]").unwrap()..];
    for key in KEYS.split(", ").chain(["variable"]) {
        let said = ["digest", "users", "tiers", "roles", "secret"].contains(&key);
        assert!(said || servers.lines().any(|line| line.starts_with(&format!("{key} ="))), "{key}");
    }
}

#[test]
fn the_examples_of_the_page_about_servers_are_policies() {
    let page = include_str!("../../../../docs/operate/mcp-servers.md");
    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let names: Vec<_> = blocks
        .map(|block| {
            let read = parse(block).unwrap_or_else(|problems| panic!("{block}{problems}"));
            let names =
                read.entries().iter().filter(|entry| entry.mcp.is_some()).map(|entry| entry.name.clone());
            names.collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(names, [["files", "wiki"], ["files", "time"]], "of each block, by name");
}
