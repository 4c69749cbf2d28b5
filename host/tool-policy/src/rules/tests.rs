//! Tricky requests one by one, and what the lines say of them.

use proptest::prelude::*;

use super::*;
use crate::testing::entry_with;

fn line<'a>(scheme: &'a str, authority: &'a str, method: &'a str, path: &'a str) -> RequestLine<'a> {
    RequestLine { scheme, authority, method, path_and_query: path }
}

fn get(scheme: &str, authority: &str, path: &str) -> Result<Target, Refusal> {
    Target::parse(&line(scheme, authority, "GET", path))
}

#[test]
fn every_spelling_of_a_request_has_one_meaning() {
    let rows = [
        ("https", "a.test", "/x", "https a.test 443 /x -"),
        ("HTTPS", "A.Test.", "/x", "https a.test 443 /x -"),
        ("https", "a.test:443", "", "https a.test 443 / -"),
        ("http", "a.test", "/", "http a.test 80 / -"),
        ("http", "a.test:8080", "/", "http a.test 8080 / -"),
        ("https", "a.test:0443", "/", "https a.test 443 / -"),
        ("https", "2130706433", "/", "https 127.0.0.1 443 / -"),
        ("https", "0x7f.1:8443", "/", "https 127.0.0.1 8443 / -"),
        ("https", "[::1]", "/", "https [::1] 443 / -"),
        ("https", "[0:0::1]:8443", "/", "https [::1] 8443 / -"),
        ("https", "bücher.test", "/", "https xn--bcher-kva.test 443 / -"),
        ("https", "a.test", "/%78?q=/../%2f&r", "https a.test 443 /x q=/../%2f&r"),
        ("https", "a.test", "?q", "https a.test 443 / q"),
        ("https", "a.test", "/x?", "https a.test 443 /x "),
    ];
    for (scheme, authority, path, expected) in rows {
        let target = get(scheme, authority, path).unwrap();
        let query = target.query.as_deref().unwrap_or("-");
        let found = format!("{} {} {} {} {query}", target.scheme, target.host, target.port, target.path);
        assert_eq!(found, expected, "{scheme} {authority} {path}");
    }
}

/// Scheme, authority, path and what is said of them: `H` and `P` stand for the first words.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    ("ftp", "a.test", "/", "the scheme \"ftp\" is not known; requests go to http:// or https://"),
    ("", "a.test", "/", "the scheme \"\" is not known; requests go to http:// or https://"),
    ("https", "", "/", "H the host is empty"),
    ("https", ":443", "/", "H the host is empty"),
    ("https", "a.test@b.test", "/", "H there is a user or password before the host"),
    ("https", "a.test:443@b.test", "/", "H there is a user or password before the host"),
    ("https", "@b.test", "/", "H there is a user or password before the host"),
    ("https", "a.test\\@b.test", "/", "H there is a user or password before the host"),
    ("https", "a.test/b", "/", "H the host holds '/'"),
    ("https", "a.test?b", "/", "H the host holds '?'"),
    ("https", "a.test#b", "/", "H the host holds '#'"),
    ("https", "a.test b.test", "/", "H the host holds ' '"),
    ("https", "a.test\r\nhost: b", "/", "H the host holds '\\r'"),
    ("https", "%61.test", "/", "H the host is percent-encoded"),
    ("https", "a..test", "/", "H a part of the host between two dots is empty or has more than 63 bytes"),
    ("https", "[fe80::1%25eth0]:443", "/", "H the address has a zone id"),
    ("https", "fe80::1", "/", "H an IPv6 address needs brackets"),
    ("https", "[::1", "/", "H an IPv6 address needs brackets"),
    ("https", "[::1]x", "/", "H the host is no IPv6 address"),
    ("https", "[::1]x:443", "/", "H the host is no IPv6 address"),
    ("https", "1.2.3.999", "/", "H the host ends in a number but is no IPv4 address"),
    (
        "https",
        "*.a.test",
        "/",
        "H a `*` is allowed alone or as the first part, before a name of at least two parts",
    ),
    ("https", "a.test:", "/", "H its port is not a number from 1 to 65535"),
    ("https", "a.test:0", "/", "H its port is not a number from 1 to 65535"),
    ("https", "a.test:65536", "/", "H its port is not a number from 1 to 65535"),
    ("https", "a.test:+443", "/", "H its port is not a number from 1 to 65535"),
    ("https", "a.test:44 3", "/", "H its port is not a number from 1 to 65535"),
    ("https", "a.test:443:80", "/", "H an IPv6 address needs brackets"),
    ("https", "a.test", "x", "P the path does not begin with a slash"),
    ("https", "a.test", "*", "P the path does not begin with a slash"),
    ("https", "a.test", "/a/../b", "P the path has a dot segment"),
    ("https", "a.test", "/a/%2e%2E/b", "P the path has a dot segment"),
    ("https", "a.test", "/a%2fb", "P the path has an encoded slash or backslash"),
    ("https", "a.test", "/a\\b", "P the path holds '\\\\', which must be percent-encoded"),
    ("https", "a.test", "/a%5cb", "P the path has an encoded slash or backslash"),
    ("https", "a.test", "/a#b", "P the path holds '#', which must be percent-encoded"),
    ("https", "a.test", "/a?b#c", "P the path holds '#', which must be percent-encoded"),
    ("https", "a.test", "/a?b c", "P the path holds ' ', which must be percent-encoded"),
];

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    for (scheme, authority, path, expected) in REFUSED {
        let refused = get(scheme, authority, path).unwrap_err().to_string();
        let refused = refused.replace("the address of the request is refused:", "H");
        let refused = refused.replace("the path of the request is refused:", "P");
        assert_eq!(refused, *expected, "{scheme} {authority} {path}");
    }
    for (bytes, fault) in [(300, "has more than 256 bytes"), (400, "has more than 256 bytes")] {
        let refused = get("https", &"a".repeat(bytes), "/").unwrap_err().to_string();
        assert!(refused.ends_with(fault), "{refused}");
    }
    for method in ["", "get", "GET POST", "GET\r\n", &"A".repeat(33)] {
        let refused = Target::parse(&line("https", "a.test", method, "/")).unwrap_err();
        assert!(matches!(refused, Refusal::Method(_)), "{method:?}: {refused}");
    }
}

const RULES: &str = "\
[[component.http]]
host = \"api.test\"
methods = [\"GET\", \"POST\"]
path = \"/v1\"
[[component.http]]
host = \"api.test\"
port = 8443
[[component.http]]
host = \"*.cdn.test\"
scheme = \"http\"
[[component.http]]
host = \"127.0.0.1\"
scheme = \"http\"
port = 8080
private = true
";

/// Requests as method, scheme, authority and path, and what is said if no line allows one: `R` and `H` stand
/// for words that are in most.
const DECIDED: &[(&str, &str)] = &[
    ("GET https api.test /v1", ""),
    ("POST https API.test.:443 /v1/x?y", ""),
    ("HEAD https api.test:8443 /anything", ""),
    ("GET http a.b.cdn.test /", ""),
    ("GET http 0x7f000001:8080 /", ""),
    ("GET https api.test.evil.test /v1", "R to api.test.evil.test H"),
    ("GET http cdn.test /", "R to cdn.test H"),
    ("GET http [::ffff:127.0.0.1]:8080 /", "R to [::ffff:7f00:1] H"),
    ("GET http api.test /v1", "R to api.test over http are not granted; only https is"),
    ("GET https x.cdn.test /", "R to x.cdn.test over https are not granted; only http is"),
    ("GET https api.test:80 /v1", "R to port 80 of api.test are not granted; the ports that are: 443, 8443"),
    ("GET http 127.0.0.1 /", "R to port 80 of 127.0.0.1 are not granted; only 8080 is"),
    ("PUT https api.test /v1", "PUT R to api.test are not granted; the methods that are: GET, POST"),
    ("GET https api.test /v2", "R to \"/v2\" of api.test are not granted; only /v1 is"),
    ("GET https api.test /v1x", "R to \"/v1x\" of api.test are not granted; only /v1 is"),
    ("GET https api.test //v1", "R to \"//v1\" of api.test are not granted; only /v1 is"),
];

#[test]
fn a_request_is_allowed_by_a_line_or_what_no_line_has_is_named() {
    let entry = entry_with(RULES);
    let hosts = "are not granted; the hosts that are: *.cdn.test, 127.0.0.1, api.test";
    for (request, expected) in DECIDED {
        let [method, scheme, authority, path] = request.split(' ').collect::<Vec<_>>()[..] else { panic!() };
        let target = Target::parse(&line(scheme, authority, method, path)).unwrap();
        let refused = entry.decide(&target).err().map_or_else(String::new, |mismatch| mismatch.to_string());
        assert_eq!(refused.replace("requests", "R").replace(hosts, "H"), *expected, "{target}");
    }
    let target = get("https", "api.test", "/").unwrap();
    let nothing = entry_with("").decide(&target).unwrap_err().to_string();
    assert_eq!(nothing, "requests to api.test are not granted; no hosts are");
    let many = "[[component.http]]\nhost = \"".to_owned();
    let many: String = (0..10).map(|number| format!("{many}h{number}.test\"\n")).collect();
    let refused = entry_with(&many).decide(&target).unwrap_err().to_string();
    assert!(refused.ends_with("h6.test, h7.test and 2 more"), "{refused}");
}

#[test]
fn private_addresses_are_reached_only_where_a_matching_line_says_so() {
    let entry = entry_with(&format!("{RULES}[[component.http]]\nhost = \"*\"\n"));
    let private = |scheme, authority, path| {
        entry.decide(&get(scheme, authority, path).unwrap()).map(|allowed| allowed.private)
    };
    assert_eq!(private("http", "127.0.0.1:8080", "/"), Ok(true));
    assert_eq!(private("https", "127.0.0.1", "/"), Ok(false), "every public host");
    assert_eq!(private("https", "api.test", "/v1"), Ok(false));
}

fn secrets(lines: &str, scheme: &str, authority: &str, path: &str) -> Vec<String> {
    let secret = |name: &str, hosts: &str| {
        format!(
            "[[component.secret]]\nname = \"{name}\"\nenv = \"K\"\nquery = \"{name}\"\nhosts = [{hosts}]\n"
        )
    };
    let own = secret("exact", "\"a.api.test\"") + &secret("below", "\"*.api.test\"");
    let entry =
        entry_with(&format!("[[component.http]]\nhost = \"*.api.test\"\npath = \"/v1\"\n{lines}{own}"));
    let target = get(scheme, authority, path).unwrap();
    let allowed = entry.decide(&target).unwrap();
    allowed.secrets.iter().map(|(name, _)| (*name).to_owned()).collect()
}

#[test]
fn secrets_go_to_their_hosts_and_nowhere_else() {
    let every = "[[component.http]]\nhost = \"*\"\n";
    let plain = "[[component.http]]\nhost = \"a.api.test\"\nscheme = \"http\"\n";
    let only_plain = "[[component.http]]\nhost = \"b.test\"\nscheme = \"http\"\n[[component.secret]]\nname = \"plain\"\n\
                      env = \"K\"\nquery = \"k\"\nhosts = [\"b.test\"]\n";
    let none: [&str; 0] = [];
    assert_eq!(secrets("", "https", "a.api.test", "/v1"), ["below", "exact"]);
    assert_eq!(secrets("", "https", "A.API.test.", "/v1"), ["below", "exact"]);
    assert_eq!(secrets("", "https", "b.api.test", "/v1"), ["below"]);
    assert_eq!(secrets(every, "https", "other.test", "/"), none);
    assert_eq!(secrets(every, "https", "api.test", "/"), none, "the apex is not below itself");
    assert_eq!(
        secrets(every, "https", "a.api.test", "/v2"),
        none,
        "only the line for every host allows this path"
    );
    assert_eq!(secrets(every, "https", "a.api.test", "/v1"), ["below", "exact"]);
    assert_eq!(secrets(plain, "http", "a.api.test", "/"), none, "there is a line for https");
    assert_eq!(secrets(only_plain, "http", "b.test", "/"), ["plain"], "the line says http");
}

proptest! {
    #[test]
    fn no_request_panics(scheme in ".{0,6}", authority in ".{0,40}", method in ".{0,8}", path in ".{0,60}") {
        let _ = Target::parse(&line(&scheme, &authority, &method, &path));
    }

    #[test]
    fn what_is_understood_is_canonical(authority in "[a-zA-Z0-9.:@%\\[\\]\\\\-]{0,20}", path in "/[a-z%2eEfF5cC./;?]{0,20}") {
        if let Ok(target) = get("https", &authority, &path) {
            let again = get("https", &format!("{}:{}", target.host, target.port), &target.path).unwrap();
            prop_assert_eq!(&again.host, &target.host);
            prop_assert_eq!(&again.path, &target.path);
            prop_assert!(!authority.contains('@') && !target.path.split('/').any(|segment| segment == ".."));
        }
    }
}
