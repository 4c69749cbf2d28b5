//! Suggestions are policies, and allow what they were asked for.

use proptest::prelude::*;

use super::*;
use crate::file;
use crate::testing::{digest, entry_with, policy, text_with, unsigned};

fn observed<'a>(url: &'a str, method: &'a str) -> Observed<'a> {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (authority, path_and_query) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Observed { line: RequestLine { scheme, authority, method, path_and_query }, private: false }
}

fn learned(base: Option<&ComponentPolicy>, urls: &[(&str, &str)]) -> LearnedEntry {
    learn(unsigned("a", &digest('a')), base, urls.iter().map(|(method, url)| observed(url, method)))
}

/// What the entry has beyond its name and digest.
fn text_of(entry: &ComponentPolicy) -> String {
    let text = render::component(entry);
    assert_eq!(**policy(&text).entries()[0], *entry);
    text.strip_prefix(&text_with("")).unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn a_component_that_is_not_in_the_policy_is_given_its_whole_entry() {
    let text = lines(&Policy::empty(), unsigned("web-search", &digest('b')), &[Want::Http]);
    let expected = format!(
        "# Fill in the host that it is to reach, and narrow port, methods and path.\n[[component]]\nname = \"web-search\"\n\
         digest = \"{}\"\n[[component.http]]\nscheme = \"https\"\nhost = \"host.example\"\n",
        digest('b')
    );
    assert_eq!(text, expected);
    assert!(policy(&text).find(unsigned("web-search", &digest('b'))).is_some());
    let all = lines(
        &Policy::empty(),
        unsigned("a", &digest('a')),
        &[Want::Http, Want::KeyValue, Want::Toolbox, Want::Ask],
    );
    let entry = policy(&all).entries()[0].clone();
    assert!(entry.toolbox && entry.ask && entry.key_value.is_some() && entry.http.len() == 1, "{all}");
    assert!(all.contains("key-value = { scope = \"user\", bytes = 65536 }\n"), "{all}");
}

#[test]
fn an_entry_that_is_there_keeps_what_it_has() {
    let file =
        policy(&text_with("tiers = [\"premium\"]\nkey-value = { scope = \"component\", bytes = 5 }\n"));
    let new_build = digest('c');
    let text = lines(&file, unsigned("a", &new_build), &[Want::KeyValue, Want::Toolbox]);
    let entry = policy(&text).find(unsigned("a", &new_build)).unwrap().clone();
    assert_eq!(entry.binding.digests, [digest('a'), new_build].into());
    assert_eq!(entry.key_value, Some(KeyValueRule { scope: Scope::Component, bytes: 5 }));
    assert!(entry.toolbox && entry.audience.tiers.is_some());
    let signed = policy(&format!("[[component]]\nname = \"a\"\nsigner = \"ed25519:{}\"\n", "1".repeat(64)));
    assert!(base(&signed, unsigned("a", &digest('a'))).is_none(), "it was signed by somebody else");
    let kept = union(&signed.entries()[0], &ComponentPolicy::bare("a", &digest('a')));
    assert!(kept.binding.digests.is_empty(), "a digest would be one more condition");
}

#[test]
fn the_least_policy_allows_what_was_observed_and_little_else() {
    let learned = learned(
        None,
        &[
            ("GET", "https://Search.example.org./search?q=1"),
            ("GET", "https://search.example.org:443/search/deep?q=2"),
            ("HEAD", "https://search.example.org/search"),
            ("POST", "https://search.example.org/report"),
            ("GET", "http://127.0.0.1:8080"),
            ("GET", "https://search.example.org/a//b"),
            ("TRACE", "https://search.example.org/"),
            ("GET", "https://user@search.example.org/"),
            ("GET", "https://search.example.org/%2e%2e/x"),
        ],
    );
    let expected = "\
[[component.http]]
scheme = \"http\"
host = \"127.0.0.1\"
port = 8080
methods = [\"GET\"]
[[component.http]]
scheme = \"https\"
host = \"search.example.org\"
methods = [\"GET\"]
path = \"/a\"
[[component.http]]
scheme = \"https\"
host = \"search.example.org\"
methods = [\"POST\"]
path = \"/report\"
[[component.http]]
scheme = \"https\"
host = \"search.example.org\"
path = \"/search\"
";
    let found = text_of(&learned.entry);
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.split("[[component.http]]\n").map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&found), sorted(expected), "{found}");
    let refused: Vec<_> = learned.refused.iter().map(String::as_str).collect();
    assert_eq!(
        refused,
        [
            "TRACE is never allowed; a method is 1 to 32 of A-Z, 0-9, '-' and '_'",
            "the address of the request is refused: there is a user or password before the host",
            "the path of the request is refused: the path has a dot segment",
        ]
    );
}

#[test]
fn many_paths_of_one_host_are_a_pattern() {
    let urls: Vec<_> = (0..20).map(|number| format!("https://a.test/items/{number}/raw")).collect();
    let urls: Vec<_> =
        urls.iter().map(|url| ("GET", url.as_str())).chain([("POST", "https://a.test/login")]).collect();
    let entry = learned(None, &urls).entry;
    let found: Vec<_> = entry.http.iter().map(|rule| rule.path.as_str()).collect();
    assert_eq!(found, ["/items", "/login"]);
    let flat: Vec<_> = (0..20).map(|number| format!("https://a.test/{number}")).collect();
    let flat: Vec<_> = flat.iter().map(|url| ("GET", url.as_str())).collect();
    let entry = learned(None, &flat).entry;
    assert_eq!(entry.http.iter().map(|rule| rule.path.as_str()).collect::<Vec<_>>(), ["/"]);
}

#[test]
fn what_is_granted_already_stays_and_nothing_is_said_twice() {
    let before = entry_with(
        "[[component.http]]\nhost = \"*\"\n[[component.http]]\nhost = \"*.a.test\"\nport = 8443\n\
         [[component.http]]\nhost = \"b.test\"\n[[component.secret]]\nname = \"k\"\nenv = \"K\"\nquery = \"q\"\nhosts = [\"b.test\"]\n",
    );
    let same = learned(Some(&before), &[("GET", "https://any.test/x"), ("HEAD", "https://x.a.test:8443/")]);
    assert_eq!(
        same.entry, **before,
        "the line for every host does not stand for the one that takes the secret"
    );
    let more = learned(Some(&before), &[("PUT", "https://b.test/x")]).entry;
    assert_eq!(more.http.len(), 4);
    assert!(before.http.is_subset(&more.http) && more.secrets == before.secrets);
    text_of(&more);
}

#[test]
fn private_addresses_are_learned_as_such() {
    let request = Observed { private: true, ..observed("http://db.internal/x", "GET") };
    let entry = learn(unsigned("a", &digest('a')), None, [request]).entry;
    assert!(text_of(&entry).ends_with("path = \"/x\"\nprivate = true\n"));
}

fn urls() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let host = prop::sample::select(vec![
        "a.test",
        "B.test.",
        "[::1]:80",
        "2130706433",
        "x.y.a.test:8443",
        "ü.test",
        "u@a.test",
    ]);
    let method = prop::sample::select(vec!["GET", "POST", "PURGE", "get", "TRACE"]);
    let scheme = prop::sample::select(vec!["http", "https"]);
    let request = (method, scheme, host, "(/[a-c%2e;?]{0,4}){0,5}");
    let request =
        request.prop_map(|(method, scheme, host, path)| (method, format!("{scheme}://{host}{path}")));
    prop::collection::vec(request, 0..40)
}

proptest! {
    #[test]
    fn what_is_learned_is_a_policy_that_allows_what_was_observed(urls in urls(), again in urls()) {
        let requests: Vec<_> = urls.iter().map(|(method, url)| (*method, url.as_str())).collect();
        let first = learned(None, &requests).entry;
        let more: Vec<_> = again.iter().map(|(method, url)| (*method, url.as_str())).collect();
        let second = learned(Some(&first), &more).entry;
        let parsed = file::parse(&render::component(&second)).unwrap();
        let entry = &parsed.entries()[0];
        prop_assert_eq!(&***entry, &second);
        for (method, url) in requests.iter().chain(&more).filter(|(method, _)| *method != "TRACE") {
            if let Ok(target) = Target::parse(&observed(url, method).line) {
                prop_assert!(entry.decide(&target).is_ok(), "{}", target);
            }
        }
        // With everything granted, nothing new is asked for.
        prop_assert_eq!(&learned(Some(&second), &requests).entry, &second);
        prop_assert!(second.http.iter().all(|rule| !rule.private && rule.host != HostPattern::Any));
    }
}
