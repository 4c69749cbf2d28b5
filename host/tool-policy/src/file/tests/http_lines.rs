//! Mistakes in `[[component.http]]`, and what is said of them. `…` stands for the beginning of an entry that
//! is right.

pub(super) const ROWS: &[(&str, &[&str])] = &[
    (
        r#"…
http = "x""#,
        &[r#"line 4, column 8: http: found "x"; allowed: [[component.http]]"#],
    ),
    (
        "…
http = [1]",
        &["line 4, column 9: http: found the number 1; allowed: [[component.http]]"],
    ),
    (
        r#"…
[component.http]
host = "a.test""#,
        &["line 4, column 1: http: found a table; allowed: [[component.http]]"],
    ),
    (
        r#"…
[[component.https]]
host = "a.test""#,
        &[r#"line 4, column 13: unknown key "https" in a component; did you mean "http"? allowed: <KEYS>"#],
    ),
    (
        "…
[[component.http]]",
        &[r#"line 4, column 1: http has no host; add: host = "…", <HOST>"#],
    ),
    (
        r#"…
[[component.http]]
host = "https://a.test""#,
        &[r#"line 5, column 8: host: found "https://a.test": the host holds '/'; allowed: <HOST>"#],
    ),
    (
        r#"…
[[component.http]]
host = "a.test:443""#,
        &[r#"line 5, column 8: host: found "a.test:443": the host has a port in it; allowed: <HOST>"#],
    ),
    (
        r#"…
[[component.http]]
host = "user@a.test""#,
        &[
            r#"line 5, column 8: host: found "user@a.test": there is a user or password before the host; allowed: <HOST>"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "*.org""#,
        &[
            r#"line 5, column 8: host: found "*.org": a `*` is allowed alone or as the first part, before a name of at least two parts; allowed: <HOST>"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "[fe80::1%eth0]""#,
        &[r#"line 5, column 8: host: found "[fe80::1%eth0]": the address has a zone id; allowed: <HOST>"#],
    ),
    (
        r#"…
[[component.http]]
host = """#,
        &[r#"line 5, column 8: host: found "": the host is empty; allowed: <HOST>"#],
    ),
    (
        "…
[[component.http]]
host = 5",
        &["line 5, column 8: host: found the number 5; allowed: a text in quotes"],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
scheme = "HTTPS""#,
        &[r#"line 6, column 10: unknown scheme "HTTPS"; did you mean "https"? allowed: http, https"#],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
scheme = "ftp""#,
        &[r#"line 6, column 10: unknown scheme "ftp"; allowed: http, https"#],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
port = 0"#,
        &["line 6, column 8: port: found the number 0; allowed: a whole number from 1 to 65535"],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
port = 65536"#,
        &["line 6, column 8: port: found the number 65536; allowed: a whole number from 1 to 65535"],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
methods = "GET""#,
        &[r#"line 6, column 11: methods: found "GET"; allowed: a list of texts in quotes, ["…"]"#],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
methods = ["get", "GTE!", "TRACE", "CONNECT", "PURGE"]"#,
        &[
            r#"line 6, column 12: unknown method "get"; did you mean "GET"? allowed: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"#,
            r#"line 6, column 19: methods: found "GTE!"; allowed: methods in upper case, such as "GET""#,
            r#"line 6, column 27: methods: found "TRACE", which sends secrets back; allowed: methods in upper case, such as "GET", but neither CONNECT nor TRACE"#,
            r#"line 6, column 36: methods: found "CONNECT", which opens a tunnel; allowed: methods in upper case, such as "GET", but neither CONNECT nor TRACE"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
path = "search""#,
        &[r#"line 6, column 8: path: found "search": the path does not begin with a slash; allowed: <PATH>"#],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
path = "/search/**""#,
        &[
            r#"line 6, column 8: path: found "/search/**": a path is no pattern: "/search" is everything below it too, so leave out the asterisks; allowed: <PATH>"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
path = "/search/""#,
        &[
            r#"line 6, column 8: path: found "/search/": a prefix has no empty segment and no slash at the end; allowed: <PATH>"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
path = "/search/../admin""#,
        &[r#"line 6, column 8: path: found "/search/../admin": the path has a dot segment; allowed: <PATH>"#],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
path = "/a%2Fb""#,
        &[
            r#"line 6, column 8: path: found "/a%2Fb": the path has an encoded slash or backslash; allowed: <PATH>"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
path = "/a?b=c""#,
        &[
            r#"line 6, column 8: path: found "/a?b=c": the path holds '?', which must be percent-encoded; allowed: <PATH>"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
private = 1"#,
        &["line 6, column 11: private: found the number 1; allowed: true or false"],
    ),
    (
        r#"…
[[component.http]]
host = "*"
private = true"#,
        &[
            r#"line 6, column 11: private = true for the host "*", which is every public host; allowed: private = true for hosts that are named"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
method = ["GET"]"#,
        &[
            r#"line 6, column 1: unknown key "method" in http; did you mean "methods"? allowed: scheme, host, port, methods, path, private"#,
        ],
    ),
    (
        r#"…
[[component.http]]
hsot = "a.test""#,
        &[
            r#"line 5, column 1: unknown key "hsot" in http; did you mean "host"? allowed: scheme, host, port, methods, path, private"#,
        ],
    ),
];
