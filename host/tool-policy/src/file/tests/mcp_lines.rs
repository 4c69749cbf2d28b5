//! Mistakes in `[[mcp]]`, and what is said of them.

use super::*;

const KEYS: &str = "name, digest, users, tiers, roles, url, plain-http, private, command, args, env, allow, limits, secret, approve";

/// A file and what is said of it. `<KEYS>` stands for all keys.
const ROWS: &[(&str, &[&str])] = &[
    (
        "[[mcp]]\nname = \"a\"\nurl = \"https://a.test\"\nalow = [\"x\"]",
        &["line 4, column 1: unknown key \"alow\" in an mcp; did you mean \"allow\"? allowed: <KEYS>"],
    ),
    (
        "[[mcp]]\nname = \"a\"\nallow = [\"x\"]",
        &[
            "line 1, column 1: the mcp has neither url nor command; add: url = \"https://…\" or command = \"/…\"",
        ],
    ),
    (
        "[[mcp]]\nname = \"a\"\nurl = \"https://a.test\"\ncommand = \"/bin/x\"\nallow = [\"x\"]",
        &["line 4, column 11: the mcp has an url and a command; allowed: one of them"],
    ),
    (
        "[[mcp]]\nname = \"a\"\nurl = \"http://a.test\"\nallow = [\"x\"]",
        &[
            "line 3, column 7: url: found an address over http, where anybody on the way reads and changes what is said; \
               allowed: https, or add plain-http = true",
        ],
    ),
    (
        "[[mcp]]\nname = \"a\"\ncommand = \"node\"\nallow = [\"x\"]",
        &["line 3, column 11: command: found \"node\"; allowed: the absolute path of a program, such as \
               \"/usr/bin/node\""],
    ),
    (
        "[[mcp]]\nname = \"a\"\ncommand = \"/x\"\nprivate = true\nallow = [\"x\"]",
        &["line 4, column 11: private beside command; allowed: beside url"],
    ),
    (
        "[[mcp]]\nname = \"a-b\"\ncommand = \"/x\"\nallow = [\"x\"]\n[[mcp]]\nname = \"a_b\"\ncommand = \"/y\"\nallow = [\"x\"]",
        &[
            "line 1, column 1: the name of the MCP server \"a-b\" is also that of line 5; give each its own name: the \
                 names of its tools begin with it",
            "line 5, column 1: the name of the MCP server \"a_b\" is also that of line 1; give each its own name: the \
                 names of its tools begin with it",
        ],
    ),
    (
        "[[mcp]]\nname = \"a\"\ncommand = \"/x\"\nallow = [\"x\"]\n[[mcp.secret]]\nname = \"k\"\nenv = \"K\"\nheader = \"x-key\"",
        &[
            "line 5, column 1: the secret has no variable; add: variable = \"…\", the environment variable of the child \
                 process that is to hold it",
            "line 8, column 1: unknown key \"header\" in secret; allowed: name, env, file, variable",
        ],
    ),
];

/// The mistakes of an entry with those lines.
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
    assert_eq!((docs.http.len(), &rule.methods), (1, &set(["POST"])));
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
fn mistakes_in_a_server_are_said_with_their_place() {
    for (text, expected) in ROWS {
        let expected: Vec<_> = expected.iter().map(|line| line.replace("<KEYS>", KEYS)).collect();
        assert_eq!(mistakes(text), expected, "{text}");
    }
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
