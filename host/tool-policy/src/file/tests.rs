//! Every message of a policy file, what its keys mean, and what a rendered one is read as.

mod approve_lines;
mod mcp_lines;

use std::collections::BTreeSet;

use proptest::prelude::*;
use url::Host;

use super::*;
use crate::audience::Audience;
use crate::entries::{Identity, Policy};
use crate::model::host::HostPattern;
use crate::model::path::PathPrefix;
use crate::model::*;
use crate::render;
use crate::signature::{Signed, SigningKey, verify};
use crate::testing::{digest, policy, text_with, unsigned};

/// Texts that stand in many messages.
const OFTEN: [(&str, &str); 7] = [
    ("<MCP>", mcp_lines::KEYS),
    (
        "<HOST>",
        "a name (\"api.example.org\"), an address (\"192.0.2.1\", \"[2001:db8::1]\"), every name below one \
         (\"*.example.org\") or every public host (\"*\")",
    ),
    (
        "<KEYS>",
        "name, digest, signer, users, tiers, roles, toolbox, ask, config, rename, limits, key-value, http, secret, approve",
    ),
    ("<SECRET KEYS>", "name, env, file, header, query, basic, prefix, hosts"),
    ("<TOML>", "the file must be TOML 1.1 (https://toml.io)"),
    ("<PATH>", "a path of whole segments that begins with a slash, such as \"/search\""),
    ("<DIGEST>", "\"sha256:\" and 64 hex digits, as `sha256sum` prints them, or a list of these"),
];

#[test]
fn every_mistake_is_said_with_its_place_what_was_found_and_what_is_allowed() {
    let cases = include_str!("tests/mistakes.txt").split("---\n").skip(1);
    for case in cases {
        let (said, lines): (Vec<_>, Vec<_>) = case.lines().partition(|line| line.starts_with("> "));
        let text = lines.join("\n");
        let whole = text.strip_prefix("…\n").map_or_else(|| text.clone(), text_with);
        let problems = parse(&whole).unwrap_err();
        let found: Vec<_> = problems.all().iter().map(|problem| format!("> {problem}")).collect();
        let in_full =
            |line: &str| OFTEN.iter().fold(line.to_owned(), |line, (short, long)| line.replace(short, long));
        assert_eq!(found, said.into_iter().map(in_full).collect::<Vec<_>>(), "{text}");
    }
}

/// The example of the issue that asked for policies, with everything in it.
const EXAMPLE: &str = r#"
[[component]]
name = "web-search"                  # the file's name without .wasm
digest = "sha256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
tiers = ["premium"]
toolbox = true
config = { language = "en" }
limits = { timeout-ms = 5000, memory-bytes = 33554432, output-bytes = 65536, fuel = 0, requests = 10, concurrent-requests = 4, http-bytes = 1048576 }
key-value = { scope = "user", bytes = 65536 }
[[component.http]]
scheme = "https"
host = "Search.Example.org."
port = 443
methods = ["GET"]
path = "/sea%72ch"
private = false
[[component.secret]]
name = "search-key"
env = "SEARCH_KEY"
header = "Authorization"
prefix = "Bearer "
hosts = ["search.example.org"]
"#;

fn search_host() -> HostPattern {
    HostPattern::Exact(Host::Domain("search.example.org".to_owned()))
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

fn example() -> ComponentPolicy {
    let authorization = Placement::Header { name: "authorization".into(), prefix: "Bearer ".into() };
    let secret = SecretRule {
        source: SecretSource::Env("SEARCH_KEY".into()),
        placement: authorization,
        hosts: [search_host()].into(),
    };
    let http = HttpRule {
        host: search_host(),
        scheme: Scheme::Https,
        port: 443,
        path: PathPrefix::parse("/search").unwrap(),
        methods: set(["GET"]),
        private: false,
    };
    ComponentPolicy {
        audience: Audience { users: None, tiers: Some(set(["premium"])), roles: None },
        toolbox: true,
        config: [("language".to_owned(), "en".to_owned())].into(),
        limits: CallLimits {
            timeout_ms: Some(5000),
            memory_bytes: Some(32 << 20),
            output_bytes: Some(64 << 10),
            fuel: None,
            requests: 10,
            concurrent_requests: 4,
            http_bytes: 1 << 20,
        },
        key_value: Some(KeyValueRule { scope: Scope::User, bytes: 64 << 10 }),
        http: [http].into(),
        secrets: [("search-key".to_owned(), secret)].into(),
        ..ComponentPolicy::bare("web-search", &digest('a'))
    }
}

#[test]
fn every_key_of_the_example_is_read() {
    let policy = policy(EXAMPLE);
    assert_eq!(policy.entries().iter().map(|entry| &***entry).collect::<Vec<_>>(), [&example()]);
    assert_eq!(policy.entries()[0].key_value.map(|rule| rule.scope), Some(Scope::User));
}

#[test]
fn versions_that_trap_are_rolled_back_unless_the_policy_says_otherwise() {
    let (silent, on, off) = (text_with(""), "rollback-on-traps = true\n", "rollback-on-traps = false\n");
    let [silent, on, off] =
        [silent.clone(), format!("{on}{silent}"), format!("{off}{silent}")].map(|text| policy(&text));
    assert!(silent.rolls_back_on_traps() && on.rolls_back_on_traps() && !off.rolls_back_on_traps());
    assert_eq!(silent.digest(), on.digest());
    assert_ne!(silent.digest(), off.digest(), "a file that says something else comes into force");
    assert_eq!(
        render::policy(off.entries().iter().map(|entry| &***entry), false).lines().next(),
        Some("rollback-on-traps = false")
    );
    let problems = parse("rollback-on-traps = 'no'").unwrap_err().to_string();
    assert!(problems.contains("rollback-on-traps"), "{problems}");
}

#[test]
fn the_documented_example_has_every_key_and_is_valid() {
    let example = include_str!("example.toml");
    let entry = policy(example).entries()[0].clone();
    assert!(
        entry.toolbox
            && entry.ask
            && entry.key_value.is_some()
            && entry.http.len() == 3
            && entry.secrets.len() == 3
    );
    for (_, keys) in OFTEN.iter().filter(|(short, _)| short.ends_with("KEYS>")) {
        for key in keys.split(", ").filter(|key| !["http", "secret"].contains(key)) {
            assert!(
                example.lines().any(|line| line.trim_start_matches("# ").starts_with(&format!("{key} ="))),
                "{key}"
            );
        }
    }
}

#[test]
fn a_byte_order_mark_and_line_ends_of_windows_change_nothing() {
    let windows = format!("\u{feff}{}", EXAMPLE.replace('\n', "\r\n"));
    assert_eq!(policy(&windows), policy(EXAMPLE));
    let problems = parse(&windows.replace("tiers", "teirs")).unwrap_err();
    assert_eq!((problems.all()[0].line, problems.all()[0].column), (5, 1));
}

#[test]
fn what_is_left_out_is_the_least_or_as_the_host_says() {
    let entry = crate::testing::entry_with("[[component.http]]\nscheme = \"http\"\nhost = \"a.test\"\n");
    let bare = ComponentPolicy::bare("a", &digest('a'));
    let rule = entry.http.first().unwrap();
    assert_eq!((rule.port, rule.path.as_str(), rule.private), (80, "/", false));
    assert_eq!(rule.methods, set(["GET", "HEAD"]));
    assert_eq!(**entry, ComponentPolicy { http: entry.http.clone(), ..bare });
    assert!(policy("").entries().is_empty() && policy("# nothing\n") == Policy::empty());
}

#[test]
fn files_that_mean_the_same_have_one_digest_and_others_have_others() {
    let reformatted = r#"
        component = [{ secret = [{ hosts = ["SEARCH.example.org"], prefix = "Bearer ", header = "AUTHORIZATION",
            env = "SEARCH_KEY", name = "search-key" }], http = [{ host = "search.example.org", methods = ["GET"],
            path = "/search" }, { host = "search.example.org", methods = ["GET"], path = "/search" }],
            key-value.scope = "user", limits = { timeout-ms = 5_000, memory-bytes = 0x2000000, output-bytes = 65536,
            requests = 10, http-bytes = 1048576 }, config.language = 'en', toolbox = true, tiers = ["premium", "premium"],
            digest = ["sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], name = "web-search" }]
    "#;
    let (one, two) = (policy(EXAMPLE), policy(reformatted));
    assert_eq!(one, two);
    assert_eq!(one.entries()[0].digest(), two.entries()[0].digest());
    let changes = [
        ("web-search\"", "web-searcher\""),
        ("sha256:A", "sha256:b"),
        ("tiers", "roles"),
        ("premium", "gold"),
        ("toolbox = true", "toolbox = false"),
        ("\"en\"", "\"de\""),
        ("5000", "5001"),
        ("33554432", "33554433"),
        ("65536, fuel", "65537, fuel"),
        ("fuel = 0", "fuel = 1"),
        ("requests = 10", "requests = 11"),
        ("concurrent-requests = 4", "concurrent-requests = 5"),
        ("1048576", "1048577"),
        ("scope = \"user\"", "scope = \"component\""),
        ("bytes = 65536 }", "bytes = 65537 }"),
        ("scheme = \"https\"", "scheme = \"http\""),
        ("Search.Example.org", "*.example.org"),
        ("443", "8443"),
        ("[\"GET\"]", "[\"GET\", \"POST\"]"),
        ("/sea%72ch", "/"),
        ("private = false", "private = true"),
        ("search-key", "key"),
        ("env = \"SEARCH_KEY\"", "file = \"SEARCH_KEY\""),
        ("header = \"Authorization\"", "header = \"X-Key\""),
        ("Bearer ", "Token "),
    ];
    let digests: BTreeSet<_> = changes
        .iter()
        .map(|(from, to)| {
            assert!(EXAMPLE.contains(from), "{from}");
            policy(&EXAMPLE.replace(from, to)).digest().to_owned()
        })
        .chain([one.digest().to_owned(), Policy::empty().digest().to_owned()])
        .collect();
    assert_eq!(digests.len(), changes.len() + 2);
    assert!(digests.iter().all(|digest| digest.starts_with("sha256:") && digest.len() == 71));
}

#[test]
fn other_names_for_tools_are_part_of_the_digest_and_of_what_changed() {
    let with = |rename: &str| policy(&text_with(rename));
    let named = with(r#"rename = { add = "sum" }"#);
    assert_eq!(named.entries()[0].rename, [("add".to_owned(), "sum".to_owned())].into());
    assert_ne!(named.digest(), with("").digest());
    assert_ne!(named.digest(), with(r#"rename = { add = "total" }"#).digest());
}

#[test]
fn an_entry_is_found_by_name_and_binding_and_never_by_the_name_alone() {
    let key = SigningKey::from_seed(&[1; 32]).unwrap();
    let signed = Signed { name: "a", component: b"x", manifest: b"" };
    let signer = verify(&signed, &key.sign(&signed), [&key.public()]).unwrap();
    let public = key.public();
    let (a, b) = (digest('a'), digest('b'));
    let policy = policy(&format!(
        "[[component]]\nname = \"a\"\nsigner = \"{public}\"\nconfig.is = \"signed\"\n\
         [[component]]\nname = \"a\"\ndigest = \"{a}\"\nconfig.is = \"listed\"\n\
         [[component]]\nname = \"both\"\ndigest = \"{a}\"\nsigner = \"{public}\"\nconfig.is = \"both\"\n"
    ));
    let found = |name, digest, signer| {
        policy.find(Identity { name, digest, signer }).map(|entry| entry.config["is"].as_str())
    };
    assert_eq!(found("a", &a, None), Some("listed"));
    assert_eq!(found("a", &a, Some(&signer)), Some("listed"), "the digest says more");
    assert_eq!(found("a", &b, Some(&signer)), Some("signed"));
    assert_eq!(found("a", &b, None), None);
    assert_eq!(found("b", &a, Some(&signer)), None);
    assert_eq!(found("both", &a, Some(&signer)), Some("both"));
    assert_eq!(found("both", &a, None), None);
    assert_eq!(found("both", &b, Some(&signer)), None);
    assert_eq!(policy.signers("a").collect::<Vec<_>>(), [&public]);
}

#[test]
fn an_entry_takes_the_place_of_those_that_could_be_for_the_same_component() {
    let before = policy(&format!("{EXAMPLE}{}", text_with("toolbox = true")));
    let after = before.with(ComponentPolicy::bare("a", &digest('a')));
    assert!(!after.find(unsigned("a", &digest('a'))).unwrap().toolbox);
    assert_eq!(after.entries().len(), 2);
    let both = before.with(ComponentPolicy::bare("a", &digest('b')));
    assert!(both.find(unsigned("a", &digest('a'))).unwrap().toolbox);
    assert!(both.find(unsigned("a", &digest('b'))).is_some());
}

#[test]
fn a_file_has_bounds() {
    let entry =
        |number: usize| format!("[[component]]\nname = \"c{number}\"\ndigest = \"{}\"\n", digest('a'));
    let many: String = (0..MOST_COMPONENTS).map(entry).collect();
    assert_eq!(policy(&many).entries().len(), MOST_COMPONENTS);
    let lines = "[[component.http]]\nhost = \"a.test\"\n".repeat(201);
    let secrets = "[[component.secret]]\n".repeat(51);
    let users = format!("users = [{}]", "\"u\", ".repeat(1001));
    let config: String = (0..101).map(|number| format!("config.k{number} = \"\"\n")).collect();
    let long = format!("config = {{ a = \"{}\" }}", "x".repeat(8193));
    let rows = [
        (many + &entry(1000), "found 1001 of [[component]]; allowed: up to 1000"),
        (text_with(&lines), "found 201 of [[component.http]]; allowed: up to 200"),
        (text_with(&secrets), "found 51 of [[component.secret]]; allowed: up to 50"),
        (text_with(&users), "users: found a list of 1001 texts; allowed: 1 to 1000, or no such key"),
        (text_with(&config), "config: found 101 keys; allowed: up to 100"),
        (text_with(&long), "config.a: found a text of 8193 bytes; allowed: up to 8192 bytes"),
        ("#".repeat(MOST_BYTES + 1), "found 1048577 bytes; allowed: up to 1048576 bytes"),
    ];
    for (text, expected) in rows {
        let problems = parse(&text).unwrap_err();
        let [problem] = problems.all() else { panic!("{problems}") };
        assert!(problem.to_string().ends_with(expected), "{problem}");
    }
    let mistakes = parse(&"[[component]]\nx = 1\n".repeat(1000)).unwrap_err();
    assert_eq!(mistakes.all().len(), 100);
    assert!(mistakes.to_string().starts_with("3000 problems in the policy:\n"), "{mistakes}");
}

#[test]
fn a_deep_or_endless_text_is_refused_within_its_bound() {
    for piece in ["[", "{a=", "a.", "a=[", "\"", "=\n", "[[component]]\n", "\u{0}", "'''", "a=1\n"] {
        let text = piece.repeat(20_000 / piece.len());
        let problems = parse(&text).unwrap_err();
        assert!(problems.all().len() <= 100, "{piece}");
    }
    let long = format!("{}[\n[\n", "#\n".repeat(MOST_BYTES_RECOVERED));
    assert_eq!(parse(&long).unwrap_err().all().len(), 1, "of a long text the first");
    assert_eq!(parse("[\n[\n").unwrap_err().all().len(), 2);
}

/// Lines that can stand together in one entry, in this order.
const LINES: [&str; 19] = [
    "users = [\"u1\", \"ü\\\"\\\\\\n\"]\n",
    "tiers = [\"premium\"]\n",
    "roles = [\"admin\", \"owner\"]\n",
    "toolbox = true\n",
    "ask = true\n",
    "config = { a = \"1\", \"b c\" = \"\\u0000\\\"\" }\n",
    "rename = { stock_look_up = \"find_part\", add = \"sum\" }\n",
    "limits = { timeout-ms = 1, fuel = 7, requests = 0 }\n",
    "key-value = { scope = \"component\" }\n",
    "[[component.http]]\nhost = \"*\"\n",
    "[[component.http]]\nhost = \"*.a.test\"\nprivate = true\nmethods = [\"POST\", \"GET\"]\n",
    "[[component.http]]\nhost = \"127.1\"\nport = 8080\nscheme = \"http\"\n",
    "[[component.http]]\nhost = \"[::1]\"\nport = 80\n",
    "[[component.http]]\nhost = \"bücher.test\"\npath = \"/a%20b\"\n",
    "[[component.http]]\nhost = \"x.test\"\n",
    "[[component.secret]]\nname = \"a\"\nenv = \"A\"\nheader = \"X-A\"\nprefix = \"A \"\nhosts = [\"x.test\"]\n",
    "[[component.secret]]\nname = \"b\"\nfile = \"a \\\"b\"\nquery = \"k\\\"\"\nhosts = [\"x.test\"]\n",
    "[[component.secret]]\nname = \"c\"\nfile = \"/run/c\"\nbasic = \"u\"\nhosts = [\"x.test\"]\n",
    "[[component.secret]]\nname = \"d\"\nfile = \"/run/d\"\nheader = \"x-d\"\nhosts = [\"x.test\"]\n",
];

proptest! {
    #[test]
    fn what_is_rendered_is_read_as_the_same(chosen in prop::collection::vec(any::<bool>(), LINES.len()), value in any::<String>()) {
        let chosen: String = LINES.iter().zip(&chosen).filter(|(_, chosen)| **chosen).map(|(line, _)| *line).collect();
        let granted = "[[component.http]]\nhost = \"x.test\"\npath = \"/y\"\n";
        let before = policy(&format!("{EXAMPLE}\n{}{granted}", text_with(&chosen)));
        let mut entry = (**before.entries()[0]).clone();
        entry.config.insert("any".into(), value);
        let before = before.with(entry);
        let text = render::policy(before.entries().iter().map(|entry| &***entry), before.rolls_back_on_traps());
        let after = policy(&text);
        prop_assert_eq!(&after, &before);
        prop_assert_eq!(after.digest(), before.digest());
    }

    #[test]
    fn what_may_be_a_secret_is_never_shown(
        key in prop::sample::select(vec!["env", "file", "header", "query", "basic", "prefix", "value"]),
        value in prop::sample::select(vec!["\"hunter2 :\\n\"", "[\"hunter2\"]", "{ hunter2 = \"hunter2\" }", "\"hunter2"]),
    ) {
        let text = text_with(&format!("config = {{ a = [\"hunter2\"] }}\n[[component.secret]]\nname = \"k\"\n{key} = {value}\n"));
        let problems = parse(&text).unwrap_err();
        let (shown, debugged) = (problems.to_string(), format!("{problems:?}"));
        prop_assert!(!shown.contains("hunter2") && !debugged.contains("hunter2"), "{}", shown);
    }
}
