//! What `json_query` answers.

use crate::query::run;

const SHOP: &str = r#"{"items":[{"name":"pen","price":2,"tags":["a","b"]},{"name":"book","price":12.50,"tags":[]},
    {"name":"lamp","price":40,"tags":["b"]}],"open":true}"#;

#[track_caller]
fn check(query: &str, json: &str, results: &str) {
    let found = run(query, json).unwrap_or_else(|failure| panic!("{query}: {failure:?}"));
    assert_eq!(found.to_json(), format!(r#"{{"results":{results}}}"#), "{query}");
}

#[track_caller]
fn refusal(query: &str, json: &str) -> (String, String) {
    let failure = run(query, json).expect_err(query);
    (failure.code, failure.message)
}

#[test]
fn selects_and_reshapes() {
    for (query, results) in [
        (".items[] | select(.price > 10) | .name", r#"["book","lamp"]"#),
        ("[.items[].price] | add", "[54.5]"),
        (".items | map({(.name): .price}) | add", r#"[{"pen":2,"book":12.50,"lamp":40}]"#),
        (".items | group_by(.price > 10) | map(length)", "[[1,2]]"),
        (".items | sort_by(-.price) | first.name", r#"["lamp"]"#),
        ("[.items[].tags[]] | unique", r#"[["a","b"]]"#),
        (".items | to_entries[] | \"\\(.key): \\(.value.name)\"", r#"["0: pen","1: book","2: lamp"]"#),
        ("reduce .items[] as $i (0; . + $i.price)", "[54.5]"),
        (".items[1] | keys", r#"[["name","price","tags"]]"#),
        (".missing?.deeper // \"none\"", r#"["none"]"#),
        ("[paths(type == \"boolean\")]", r#"[[["open"]]]"#),
        (".items | map(.name | test(\"^[pl]\"))", "[[true,false,true]]"),
        (".items[0].name | ascii_upcase | @base64", r#"["UEVO"]"#),
        ("if .open then \"yes\" else \"no\" end", r#"["yes"]"#),
        ("empty", "[]"),
        (".items |= length | del(.open)", r#"[{"items":3}]"#),
        ("[limit(3; repeat(1))]", "[[1,1,1]]"),
        ("0 | todate", r#"["1970-01-01T00:00:00Z"]"#),
        ("\"2026-07-14T12:00:00Z\" | fromdate", "[1784030400]"),
        ("\"[1,{\\\"a\\\":2}]\" | fromjson", r#"[[1,{"a":2}]]"#),
        ("# a comment\n.open", "[true]"),
        (
            ".items[0] | [.name, .price, .tags == [], null, \"a\\\"b,c\"] | @csv",
            r#"["\"pen\",2,false,,\"a\"\"b,c\""]"#,
        ),
        ("[\"a\\tb\\\\\\n\", 1.5, true, null] | @tsv", r#"["a\\tb\\\\\\n\t1.5\ttrue\t"]"#),
        (".items | map(select(.name | IN(\"pen\", \"cap\")) | .price), IN(.[].price; 40)", "[[2],true]"),
        (".items | INDEX(.name) | .lamp.price", "[40]"),
        (
            "[1,2,3,4] | del(.[0,1]), del(.[-1,-2], .[0]), del(.[1:3], .[0]), delpaths([[3],[0]])",
            "[[3,4],[2],[4],[2,3]]",
        ),
        ("[range(200)] | del(.[] | select(. > 1)), del(.[200])[:1]", "[[0,1],[0]]"),
        ("[1,2,3] | del(.[0,0]), del(.[7],.[0]), del(.[-7]), del(first(.[]))", "[[2,3],[2,3],[1,2,3],[2,3]]"),
        (
            "[{\"a\":1},2,{\"a\":3}] | del(.[0], .[2].a), delpaths([[2,\"a\"],[5]])",
            r#"[[2,{}],[{"a":1},2,{}]]"#,
        ),
        (
            "{\"a\":{\"b\":1},\"c\":2} | del(.a, .a.b), del(.c, .x.y), del(..)",
            r#"[{"c":2},{"a":{"b":1}},null]"#,
        ),
        (
            "[{\"name\":\"a\",\"value\":1},{\"Key\":\"b\",\"Value\":2},{\"key\":3}] | from_entries",
            r#"[{"a":1,"b":2,"3":null}]"#,
        ),
        ("[\"a\", null, 1, false] | join(\",\"), ([] | join(\"-\"))", r#"["a,,1,false",""]"#),
    ] {
        check(query, SHOP, results);
    }
}

#[test]
fn numbers_keep_their_digits_and_stay_json() {
    for (query, results) in [
        (".", "[100000000000000000000000000001]"),
        (". + 1", "[100000000000000000000000000002]"),
        ("1.10", "[1.10]"),
        ("0.1 + 0.2, 1e1", "[0.30000000000000004,1e1]"),
        ("1e1000, -infinite, nan", "[1.7976931348623157e+308,-1.7976931348623157e+308,null]"),
    ] {
        check(query, "100000000000000000000000000001", results);
    }
}

#[test]
fn nothing_reaches_out_of_the_sandbox() {
    check("env, $ENV, $ENV.PATH", "null", "[{},{},null]");
    check("0 | localtime | mktime", "null", "[0]");
    check("[debug, stderr]", "1", "[[1,1]]");
    for (query, message) in [
        (
            "input",
            "the query cannot be read: at character 1 (`input`): there is no function `input` without arguments",
        ),
        (
            "now",
            "the query cannot be read: at character 1 (`now`): there is no function `now` without arguments",
        ),
        (
            "include \"a\"; 1",
            "the query cannot be read: at character 10 (`a`): there are no modules here to import `a` from",
        ),
    ] {
        assert_eq!(refusal(query, "null"), ("invalid-arguments".to_owned(), message.to_owned()));
    }
}

#[test]
fn a_query_that_cannot_be_read_is_refused_with_the_place() {
    for (query, message) in [
        ("", "at its end: expected term"),
        (".a |", "at its end: expected term"),
        (".a[", "at its end: expected closing bracket"),
        ("{(1:2)}", "at character 4 (`:`): expected ); at character 7 (`}`): expected :"),
        ("\"é\" | foo(1)", "at character 7 (`foo`): there is no function `foo` with 1 argument"),
        ("nth(1;2;3)", "at character 1 (`nth`): there is no function `nth` with 3 arguments"),
        (".5", "at character 2 (`5`): expected nothing more"),
        ("$x", "at character 1 (`$x`): there is no variable `$x`"),
        ("a::b", "at character 1 (`a`): there is no module `a`"),
    ] {
        let expected = format!("the query cannot be read: {message}");
        assert_eq!(refusal(query, "null"), ("invalid-arguments".to_owned(), expected), "{query}");
    }
}

#[test]
fn a_query_that_would_exhaust_the_stack_is_refused() {
    let nested = |open: &str, levels, close: &str| open.repeat(levels) + "1" + &close.repeat(levels);
    for query in [
        nested("[", 5000, "]"),
        nested("first(", 400, ")"),
        nested("\"\\(", 1000, ")\""),
        nested("{a:", 1000, "}"),
        nested("- ", 2000, ""),
        nested("try ", 2000, ""),
        nested("1 as $x | ", 900, ""),
        nested("1,", 2000, ""),
        "(".repeat(5000),
        ".a".repeat(15_000),
        format!("if false then 1 {}end", "elif false then 1 ".repeat(3000)),
    ] {
        let (code, message) = refusal(&query, "null");
        assert_eq!(code, "invalid-arguments");
        assert!(message.starts_with("the query is too long"), "{message}");
    }
    check(&nested("[", 60, "]"), "null", &format!("[{}]", nested("[", 60, "]")));
    check(&format!("[{}] | length", ["1"; 100].join(",")), "null", "[100]");
}

#[test]
fn a_function_that_calls_itself_too_deep_is_ended() {
    check("def fac: if . < 2 then 1 else . * (. - 1 | fac) end; 5 | fac", "null", "[120]");
    // A call in the last place takes no stack.
    check("def f: if . < 10000 then . + 1 | f else . end; 0 | f", "null", "[10000]");
    check("def f: .[0]; f = 2, (f |= 3), path(f)", "[1]", "[[2],[3],[0]]");
    for query in [
        "def f: 1 + f; f",
        "def f: [f]; f",
        "def f(g): [g | f(g)]; f(.)",
        "def f: f | f; f",
        "def f: try (1 + f) catch 0; f",
        "def f: .a | f | .b; path(f)",
        "def f: . | f | .; f |= 1",
        "\"\\(def f: {a: f}; f)\"",
        "def f: def g: 1 + f; g; f",
    ] {
        let (code, message) = refusal(query, "null");
        assert_eq!(code, "query-failed", "{query}");
        assert!(message.starts_with("a function calls itself too deep"), "{query}: {message}");
    }
    let (_, message) = refusal("def f: 1; def g: x; g", "null");
    assert_eq!(
        message,
        "the query cannot be read: at character 18 (`x`): there is no function `x` without arguments"
    );
}

#[test]
fn a_query_that_fails_says_at_what() {
    for (query, message) in [
        (".a", "cannot index 1 with \"a\""),
        ("1, 2, .[0]", "after 2 results: cannot index 1 with 0"),
        ("error(\"no\")", "\"no\""),
        ("halt", "the query calls halt; there is nothing to halt here"),
        ("{(1): 2}", "a result has the key 1; JSON's keys are text"),
        ("\"a\" | tobytes", "a result holds bytes, which JSON cannot; make text of them"),
        ("[[1]] | @csv", "\"[1] cannot stand in a line of CSV\""),
    ] {
        assert_eq!(refusal(query, "1"), ("query-failed".to_owned(), message.to_owned()), "{query}");
    }
    let (_, message) = refusal(".a", &format!("\"{}\"", "é".repeat(10_000)));
    assert_eq!(message.chars().count(), 401);
    assert!(refusal(".", "[1,").1.starts_with("`json` cannot be read"));
}

#[test]
fn results_are_bounded() {
    let many = run("range(1000000)", "null").unwrap().to_json();
    assert!(many.ends_with("998,999],\"truncated\":true}"), "{}", &many[many.len() - 40..]);
    let large = run("repeat(\"x\" * 100000)", "null").unwrap().to_json();
    assert!(large.len() < 128 << 10 && large.ends_with("\"truncated\":true}"));
    let (_, message) = refusal("\"x\" * 200000", "null");
    assert_eq!(message, "a result is larger than 128 KiB; select less of it");
    let deep = |levels| format!("reduce range({levels}) as $level (null; [.])");
    let deepest = run(&deep(125), "null").unwrap().to_json();
    assert!(serde_json::from_str::<serde_json::Value>(&deepest).is_ok());
    let (_, message) = refusal(&deep(126), "null");
    assert_eq!(message, "a result is more than 125 arrays and objects deep; select less of it");
}
