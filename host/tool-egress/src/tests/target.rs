//! URIs that have one meaning, and those that are refused.

use crate::error::InvalidUri;
use crate::target::Target;

fn parse(url: &str) -> Result<Target, InvalidUri> {
    Target::parse(&url.parse().unwrap())
}

#[test]
fn a_host_is_read_one_way() {
    for (url, host, port, authority) in [
        ("https://Example.ORG/a?b", "example.org", 443, "example.org"),
        ("http://example.org:8080", "example.org", 8080, "example.org:8080"),
        ("https://example.org:443/", "example.org", 443, "example.org"),
        ("http://127.0.0.1/", "127.0.0.1", 80, "127.0.0.1"),
        ("http://[::1]:81/", "::1", 81, "[::1]:81"),
        ("http://[0:0:0:0:0:ffff:7f00:1]/", "::ffff:127.0.0.1", 80, "[::ffff:127.0.0.1]"),
        ("http://a_b.c-d.e1/", "a_b.c-d.e1", 80, "a_b.c-d.e1"),
    ] {
        let target = parse(url).unwrap();
        assert_eq!((target.origin.host.as_str(), target.origin.port), (host, port), "{url}");
        assert_eq!(target.origin.authority(), authority, "{url}");
    }
}

#[test]
fn user_names_and_passwords_are_refused() {
    for url in ["http://user@example.org/", "http://user:pass@example.org/", "http://good.org@evil.org/"] {
        assert_eq!(parse(url), Err(InvalidUri::Userinfo), "{url}");
    }
}

/// `getaddrinfo` takes all of these for 127.0.0.1.
#[test]
fn numbers_that_are_no_plain_addresses_are_refused() {
    for host in [
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "0127.0.0.1",
        "1.2.3.4.5",
        "256.1.1.1",
        "example.0x",
        "example.1",
    ] {
        assert_eq!(parse(&format!("http://{host}/")), Err(InvalidUri::NumericHost), "{host}");
    }
}

#[test]
fn names_that_are_no_names_are_refused() {
    for uri in ["http://%31%32%37.0.0.a/", "http://a b/", "http://ä.org/", "http://a\\b/"] {
        assert!(uri.parse::<http::Uri>().is_err(), "{uri}");
    }
    for host in ["example.org.", "127.0.0.1.", "a..b", ".a", "-a.org", "a-.org", "a!b", "a,b", "$"] {
        assert_eq!(parse(&format!("http://{host}/")), Err(InvalidUri::Host), "{host}");
    }
    assert_eq!(parse(&format!("http://{}.org/", "a".repeat(64))), Err(InvalidUri::Host));
    assert_eq!(parse(&format!("http://{}org/", "abcdefghi.".repeat(26))), Err(InvalidUri::Host));
}

#[test]
fn zones_and_broken_ipv6_are_refused() {
    // Some the parser of URIs takes, and some it does not: neither may come through.
    for host in ["[fe80::1%eth0]", "[fe80::1%25eth0]", "[::1", "[]", "[1.2.3.4]", "[::ffff:1.2.3]", "[v1.x]"]
    {
        if let Ok(uri) = format!("http://{host}/").parse() {
            assert_eq!(Target::parse(&uri), Err(InvalidUri::Ipv6), "{host}");
        }
    }
    assert_eq!(parse("http://[1.2.3.4]/"), Err(InvalidUri::Ipv6));
}

#[test]
fn ports_and_schemes_are_read_strictly() {
    for url in ["http://a.org:/", "http://a.org:0/", "http://a.org:65536/"] {
        match url.parse() {
            Ok(uri) => assert_eq!(Target::parse(&uri), Err(InvalidUri::Port), "{url}"),
            Err(_unparsable) => {}
        }
    }
    assert_eq!(parse("http://a.org:0/"), Err(InvalidUri::Port));
    assert_eq!(parse("ftp://a.org/"), Err(InvalidUri::Scheme));
    assert_eq!(parse("/path"), Err(InvalidUri::NotAbsolute));
    assert_eq!(parse("a.org:80"), Err(InvalidUri::NotAbsolute));
    assert_eq!(parse(&format!("http://a.org/{}", "x".repeat(9000))), Err(InvalidUri::TooLong(8192)));
}

/// `wasi:http` builds the URI from parts that guests set one by one.
#[test]
fn paths_begin_with_a_slash() {
    for path in ["*", "http://evil.test/", "evil", "@evil.test/"] {
        let uri = http::Uri::builder().scheme("http").authority("a.org").path_and_query(path).build();
        if let Ok(uri) = uri {
            assert_eq!(Target::parse(&uri), Err(InvalidUri::Path), "{path}");
        }
    }
    let query =
        http::Uri::builder().scheme("http").authority("a.org").path_and_query("?a=b").build().unwrap();
    assert_eq!(Target::parse(&query).unwrap().path_and_query, "/?a=b");
}
