//! Mistakes in `[[component.secret]]`, and what is said of them. `…` stands for the beginning of an entry
//! that is right.

pub(super) const ROWS: &[(&str, &[&str])] = &[
    (
        "…
[[component.secret]]",
        &[
            r#"line 4, column 1: the secret has no name; add: name = "…", 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', not beginning with '.'"#,
            r#"line 4, column 1: the secret has no source; add: env = "…" (an environment variable) or file = "…" (a file, or a folder with a file of the secret's name)"#,
            r#"line 4, column 1: the secret has no place in a request; add: header = "…", query = "…" (a parameter) or basic = "…" (a user)"#,
            r#"line 4, column 1: the secret has no hosts; add: hosts = ["…"], the hosts of http lines that it is sent to"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
[[component.secret]]
name = ".x"
env = "sk-live-1234"
query = "q"
hosts = ["a.test"]"#,
        &[
            r#"line 7, column 8: name: found ".x"; allowed: 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', not beginning with '.'"#,
            "line 8, column 7: env: found a text (not shown); allowed: the name of an environment variable, never its value",
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
[[component.secret]]
name = "k"
env = "K"
file = "k"
header = "a"
query = "q"
hosts = ["a.test"]"#,
        &[
            "line 6, column 1: the secret has env and file for its source; allowed: one of env, file",
            "line 6, column 1: the secret has header and query for its place in a request; allowed: one of header, query, basic",
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
[[component.secret]]
name = "k"
value = "hunter2"
env = "K"
header = "Host"
hosts = ["a.test"]"#,
        &[
            r#"line 8, column 1: unknown key "value" in secret; allowed: <SECRET KEYS>"#,
            r#"line 10, column 10: header: the host itself writes "host"; allowed: a header's name, such as "Authorization", but none of connection, content-length, expect, host, http2-settings, keep-alive, max-forwards, proxy-authenticate, proxy-authorization, proxy-connection, te, trailer, transfer-encoding, upgrade"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
[[component.secret]]
name = "k"
env = 5
header = "a b"
prefix = "Bearer "
hosts = ["a.test"]"#,
        &[
            "line 8, column 7: env: found a number (not shown); allowed: a text in quotes",
            r#"line 9, column 10: header: found a text (not shown); allowed: a header's name, such as "Authorization""#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
[[component.secret]]
name = "k"
file = ""
header = "a"
prefix = "Bearer\n"
hosts = ["a.test"]"#,
        &[
            "line 8, column 8: file: found a text (not shown); allowed: the path of a file or a folder",
            "line 10, column 10: prefix: found a text (not shown); allowed: printable ASCII",
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
[[component.secret]]
name = "k"
env = "K"
basic = "a:b"
prefix = "x"
hosts = ["a.test"]"#,
        &[
            "line 9, column 9: basic: found a text (not shown); allowed: a user's name without a colon",
            "line 10, column 10: prefix beside basic; allowed: prefix beside header",
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
[[component.secret]]
name = "k"
env = "K"
query = ""
hosts = ["*", "b.test", "*.a.test", "a b"]"#,
        &[
            "line 9, column 9: query: found a text (not shown); allowed: the name of a parameter",
            r#"line 10, column 10: hosts: found "*", so that every host would be sent the secret; allowed: hosts by their names, or below a name"#,
            r#"line 10, column 15: hosts: no http line of this component names "b.test"; add: a [[component.http]] with host = "b.test" (https, unless the line says scheme = "http")"#,
            r#"line 10, column 25: hosts: no http line of this component names "*.a.test"; add: a [[component.http]] with host = "*.a.test" (https, unless the line says scheme = "http")"#,
            r#"line 10, column 37: hosts: found "a b": the host holds ' '; allowed: <HOST>"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "*"
[[component.secret]]
name = "k"
env = "K"
query = "q"
hosts = ["a.test"]"#,
        &[
            r#"line 10, column 10: hosts: no http line of this component names "a.test"; add: a [[component.http]] with host = "a.test" (https, unless the line says scheme = "http")"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
[[component.secret]]
name = "k"
env = "K"
query = "q""#,
        &[
            r#"line 6, column 1: the secret has no hosts; add: hosts = ["…"], the hosts of http lines that it is sent to"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
[[component.secret]]
name = "k"
env = "K"
query = "q"
host = ["a.test"]"#,
        &[r#"line 10, column 1: unknown key "host" in secret; did you mean "hosts"? allowed: <SECRET KEYS>"#],
    ),
    (
        r#"…
[[component.http]]
host = "a.test"
[[component.secret]]
name = "k"
env = "K"
header = "Authorization"
hosts = ["a.test"]
[[component.secret]]
name = "l"
env = "K"
basic = "u"
hosts = ["a.test"]
[[component.secret]]
name = "k"
env = "K"
query = "q"
hosts = ["a.test"]"#,
        &[
            r#"line 11, column 1: the secrets "k" and "l" have one place in requests to the same host; give each another place or other hosts"#,
            r#"line 17, column 8: the secret "k" is there twice; name each once"#,
        ],
    ),
    (
        r#"…
[[component.http]]
host = "bad host"
[[component.secret]]
name = "k"
env = "K"
query = "q"
hosts = ["b.test"]"#,
        &[r#"line 5, column 8: host: found "bad host": the host holds ' '; allowed: <HOST>"#],
    ),
    (
        r#"…
[[component.secret]]
name = "k"
evn = "K"
headers = "a"
hosts = ["a.test"]"#,
        &[
            r#"line 6, column 1: unknown key "evn" in secret; did you mean "env"? allowed: <SECRET KEYS>"#,
            r#"line 7, column 1: unknown key "headers" in secret; did you mean "header"? allowed: <SECRET KEYS>"#,
            r#"line 8, column 10: hosts: no http line of this component names "a.test"; add: a [[component.http]] with host = "a.test" (https, unless the line says scheme = "http")"#,
        ],
    ),
];
