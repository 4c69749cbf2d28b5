//! Mistakes in the file as a whole and in what belongs to a component itself, and what is said of them. `…`
//! stands for the beginning of an entry that is right.

pub(super) const ROWS: &[(&str, &[&str])] = &[
    (
        "tool = 1",
        &[
            r#"line 1, column 1: unknown key "tool" in the file; allowed: component, mcp, rollback-on-traps"#,
        ],
    ),
    (
        "[[components]]",
        &[
            r#"line 1, column 3: unknown key "components" in the file; did you mean "component"? allowed: component, mcp, rollback-on-traps"#,
        ],
    ),
    (
        "component = 1",
        &[
            "line 1, column 13: component: found the number 1; allowed: [[component]]",
        ],
    ),
    (
        "component = [1]",
        &[
            "line 1, column 14: component: found the number 1; allowed: [[component]]",
        ],
    ),
    (
        r#"[component]
name = "a""#,
        &[
            "line 1, column 1: component: found a table; allowed: [[component]]",
        ],
    ),
    (
        r#"[[component]]
name = "web-search""#,
        &[
            r#"line 1, column 1: the component "web-search" has neither digest nor signer, so every file of its name would have these grants; add: digest = "sha256:…" with what `sha256sum web-search.wasm` prints, or signer = "ed25519:…""#,
        ],
    ),
    (
        "[[component]]
digest = 5",
        &[
            r#"line 1, column 1: the component has no name; add: name = "…", the file's name without .wasm: 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'"#,
            "line 2, column 10: digest: found the number 5; allowed: a text in quotes",
        ],
    ),
    (
        r#"[[component]]
name = "a"
diggest = "x""#,
        &[
            r#"line 3, column 1: unknown key "diggest" in a component; did you mean "digest"? allowed: <KEYS>"#,
        ],
    ),
    (
        r#"[[component]]
name = "a b"
digest = "sha256:12""#,
        &[
            r#"line 2, column 8: name: found "a b"; allowed: the file's name without .wasm: 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'"#,
            r#"line 3, column 10: digest: found "sha256:12"; allowed: <DIGEST>"#,
        ],
    ),
    (
        r#"[[component]]
name = "a"
digest = []"#,
        &[
            "line 3, column 10: digest: found a list of 0 texts; allowed: 1 to 1000, or no such key",
        ],
    ),
    (
        r#"[[component]]
name = "a"
digest = ["sha256:xy", 5]"#,
        &[
            r#"line 3, column 11: digest: found "sha256:xy"; allowed: <DIGEST>"#,
            "line 3, column 24: digest: found the number 5; allowed: a text in quotes",
        ],
    ),
    (
        r#"[[component]]
name = "a"
signer = "ed25519:AAAA""#,
        &[
            r#"line 3, column 10: signer: found "ed25519:AAAA"; allowed: "ed25519:" and 64 hex digits, as `agent-tool sign` prints them, or a list of these"#,
        ],
    ),
    (
        r#"[[component]]
name = "a"
signer = { key = 1 }"#,
        &[
            "line 3, column 10: signer: found a table; allowed: a text in quotes",
        ],
    ),
    (
        "…
users = []",
        &[
            "line 4, column 9: users: found a list of 0 texts; allowed: 1 to 1000, or no such key",
        ],
    ),
    (
        r#"…
users = "u1""#,
        &[
            r#"line 4, column 9: users: found "u1"; allowed: a list of texts in quotes, ["…"]"#,
        ],
    ),
    (
        r#"…
tiers = ["premium", ""]"#,
        &[
            r#"line 4, column 21: tiers: found ""; allowed: texts that are not empty"#,
        ],
    ),
    (
        "…
roles = [1]",
        &[
            "line 4, column 10: roles: found the number 1; allowed: a text in quotes",
        ],
    ),
    (
        r#"…
role = ["admin"]"#,
        &[
            r#"line 4, column 1: unknown key "role" in a component; did you mean "roles"? allowed: <KEYS>"#,
        ],
    ),
    (
        r#"…
toolbox = "yes""#,
        &[
            r#"line 4, column 11: toolbox: found "yes"; allowed: true or false"#,
        ],
    ),
    (
        "…
tool_box = true",
        &[
            r#"line 4, column 1: unknown key "tool_box" in a component; did you mean "toolbox"? allowed: <KEYS>"#,
        ],
    ),
    (
        r#"…
config = "a""#,
        &[
            r#"line 4, column 10: config: found "a"; allowed: a table, { key = "…" }"#,
        ],
    ),
    (
        r#"…
config = { key = 5, "" = "x", other = true }"#,
        &[
            "line 4, column 18: config.key: found a number (not shown); allowed: a text in quotes",
            "line 4, column 21: config: found a key of no or many bytes; allowed: keys of 1 to 128 bytes",
            "line 4, column 39: config.other: found true; allowed: a text in quotes",
        ],
    ),
    (
        "…
limits = 5",
        &[
            "line 4, column 10: limits: found the number 5; allowed: a table, { timeout-ms = 5000 }",
        ],
    ),
    (
        "…
limits = { timeout = 5 }",
        &[
            r#"line 4, column 12: unknown key "timeout" in limits; did you mean "timeout-ms"? allowed: timeout-ms, memory-bytes, output-bytes, fuel, requests, concurrent-requests, http-bytes"#,
        ],
    ),
    (
        "…
limits = { timeout-ms = 0, memory-bytes = 1, output-bytes = 0, fuel = -1, requests = 10001, concurrent-requests = 0, http-bytes = 1.5 }",
        &[
            "line 4, column 25: timeout-ms: found the number 0; allowed: a whole number from 1 to 3600000",
            "line 4, column 43: memory-bytes: found the number 1; allowed: a whole number from 1048576 to 4294967296",
            "line 4, column 61: output-bytes: found the number 0; allowed: a whole number from 1 to 1073741824",
            "line 4, column 71: fuel: found the number -1; allowed: a whole number from 0 to 9223372036854775807",
            "line 4, column 86: requests: found the number 10001; allowed: a whole number from 0 to 10000",
            "line 4, column 115: concurrent-requests: found the number 0; allowed: a whole number from 1 to 100",
            "line 4, column 131: http-bytes: found a number with a fraction; allowed: a whole number from 0 to 1073741824",
        ],
    ),
    (
        r#"…
limits = { timeout-ms = "5s", fuel = 99999999999999999999999999999999 }"#,
        &[
            r#"line 4, column 25: timeout-ms: found "5s"; allowed: a whole number from 1 to 3600000"#,
            "line 4, column 38: fuel: found the number 999999999999999999999999…; allowed: a whole number from 0 to 9223372036854775807",
        ],
    ),
    (
        r#"…
key-value = "user""#,
        &[
            r#"line 4, column 13: key-value: found "user"; allowed: a table, { scope = "component" or "user", bytes = … }"#,
        ],
    ),
    (
        r#"…
key-value = { scope = "users", bytes = 0 }"#,
        &[
            r#"line 4, column 23: unknown scope "users"; did you mean "user"? allowed: component, user"#,
            "line 4, column 40: bytes: found the number 0; allowed: a whole number from 1 to 1073741824",
        ],
    ),
    (
        "…
key-value = { bytes = 10 }",
        &[
            r#"line 4, column 13: key-value has no scope; add: scope = "user" (each user has their own) or "component" (all callers share it)"#,
        ],
    ),
    (
        "…
key-value = { scope = 1, size = 10 }",
        &[
            "line 4, column 23: scope: found the number 1; allowed: a text in quotes",
            r#"line 4, column 26: unknown key "size" in key-value; allowed: scope, bytes"#,
        ],
    ),
    (
        "…
toolbox = true
toolbox = false",
        &[
            "line 5, column 1: duplicate key; <TOML>",
        ],
    ),
    (
        "…
limits = { requests = 5",
        &[
            "line 4, column 24: unclosed inline table, expected `}`; <TOML>",
        ],
    ),
    (
        r#"[[component]]
name = "a
diggest = "sha256:12"
toolbox = 5"#,
        &[
            r#"line 2, column 10: invalid basic string, expected `"`; <TOML>"#,
            r#"line 3, column 1: unknown key "diggest" in a component; did you mean "digest"? allowed: <KEYS>"#,
            "line 4, column 11: toolbox: found the number 5; allowed: true or false",
        ],
    ),
    (
        r#"[[component]]
naem = "ä""#,
        &[
            r#"line 1, column 1: the component has neither digest nor signer, so every file of its name would have these grants; add: digest = "sha256:…" with what `sha256sum <its name>.wasm` prints, or signer = "ed25519:…""#,
            r#"line 2, column 1: unknown key "naem" in a component; did you mean "name"? allowed: <KEYS>"#,
        ],
    ),
    (
        "…
rename = { add = \"Sum\", stock_look-up = \"find\", look = \"find\", a = 5 }",
        &[
            r#"line 4, column 18: rename: found "Sum"; allowed: names of tools: a letter a-z and then up to 62 of a-z, 0-9 and '_'"#,
            r#"line 4, column 25: rename: found "stock_look-up"; allowed: names of tools: a letter a-z and then up to 62 of a-z, 0-9 and '_'"#,
            r#"line 4, column 41: rename: two tools would be "find"; allowed: another name for each"#,
            "line 4, column 68: rename.a: found the number 5; allowed: a text in quotes",
        ],
    ),
    (
        "<xml/>",
        &[
            "line 1, column 7: key with no value, expected `=`; <TOML>",
        ],
    ),
    (
        r#"[[component]]
name = "a"
digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
[[component]]
name = "a"
digest = ["sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "sha256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]"#,
        &[
            r#"line 4, column 1: the component "a" with sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa is in the file twice, first at line 1; put its lines together"#,
        ],
    ),
    (
        r#"[[component]]
name = "ä"; x = "é""#,
        &[
            "line 2, column 11: unexpected key or value, expected newline, `#`; <TOML>",
        ],
    ),
];
