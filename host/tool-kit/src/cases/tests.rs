//! What a case file means, and every message about one that is wrong.

use serde_json::json;

use super::*;
use crate::upstream::Mock;

fn problems(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn a_whole_file_is_read() {
    let file = parse(
        r#"
component = "dist/rates.wasm"

[[case]]
name = "reads a rate"
tool = "rate"
arguments = { from = "EUR", days = 3, big = 18446744073709551615, nested = { list = [1.5, true] } }
expect = { contains = "1.1" }
secrets = ["api-key"]
[case.config]
endpoint = "https://api.example.org"
[[case.http]]
url = "https://api.example.org/rates?base=EUR"
json = { rate = 1.1 }
[[case.http]]
method = "post"
url = "https://api.example.org/log"
fails = "connection-refused"
delay-ms = 20

[[case]]
expect = { error = "not-found" }
[case.secrets]
other = true
"#,
    )
    .unwrap();
    assert_eq!(file.component.as_deref(), Some("dist/rates.wasm"));
    let [first, second] = &file.cases[..] else { panic!("{file:#?}") };
    assert_eq!(
        serde_json::Value::Object(first.arguments.clone()),
        json!({"from": "EUR", "days": 3, "big": u64::MAX, "nested": {"list": [1.5, true]}})
    );
    assert_eq!((first.line, first.http.len(), first.config.len(), first.secrets.len()), (4, 2, 1, 1));
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    assert_eq!(
        first.http[0].answer,
        Mock::Response { status: 200, headers, body: br#"{"rate":1.1}"#.to_vec() }
    );
    assert_eq!((first.http[0].method.as_str(), first.http[1].method.as_str()), ("GET", "POST"));
    assert_eq!(
        (first.http[1].answer.clone(), first.http[1].delay_ms),
        (Mock::Fails("connection-refused".into()), 20)
    );
    assert_eq!((second.name.as_str(), second.tool.as_deref()), ("case 2", None));
    assert!(second.secrets.contains("other"));
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_its_line() {
    insta::assert_snapshot!(problems(r#"
[[case]]
nmae = "a"
arguments = 3
expect = { outptu = "3" }
[[case]]
name = "twice"
[[case]]
name = "twice"
expect = { output = "1" }
secrets = { key = "sk-1234" }
config = { size = 3 }
[[case.http]]
status = 99
body = "a"
json = 1
[[case.http]]
url = "ftp://a"
headers = { a = 1 }
"#), @r#"
    line 3: unknown key "nmae" in a case; it may have name, tool, arguments, expect, http, answer, config, secrets
    line 4: arguments is a number: write a table, such as { a = 1 }
    line 5: expect of the case "case 1": unknown key "outptu"; it may have output, json, contains, matches and error
    line 6: the case "twice" expects nothing: add expect = { output = "…" }, or json, contains, matches, error
    line 8: the name "twice" is taken by the case of line 6: names tell cases apart
    line 11: secrets.key is a text: write key = true; values do not belong into the file
    line 12: config.size is a number: values of the configuration are texts
    line 13: a [[case.http]] without url: write the one that the tool asks for, query included
    line 13: body, json and fails stand beside one another: a request has one answer
    line 14: status should be a whole number from 200 to 599
    line 17: the url "ftp://a" begins with neither https:// nor http://
    line 19: the header a is a number, and should be a text
    "#);
    let refused = "[[case]]\nexpect = {error = \"denied\"}\n[[case.http]]\nurl = \"https://a\"\nstatus = 503\n\
                   fails = \"dns-timeout\"";
    insta::assert_snapshot!(problems(refused), @"line 3: status or headers beside fails: a request that fails has no answer");
    insta::assert_snapshot!(problems("case = 3\nother = 1"), @r#"
    line 1: case is a number: write each as [[case]]
    line 2: unknown key "other" in the file; it may have component, case
    "#);
}

#[test]
fn what_is_no_toml_or_no_json_is_said_with_its_line() {
    insta::assert_snapshot!(problems("\n[[case\n"), @"line 2: unclosed array table, expected `]]`: the file must be TOML (https://toml.io)");
    insta::assert_snapshot!(problems("[[case]]\nexpect = {output = \"\"}\narguments = {a = nan}"), @"line 3: nan is no number that JSON has");
    let deep = format!(
        "[[case]]\nexpect = {{output = \"\"}}\narguments = {{a = {}{}}}",
        "[".repeat(70),
        "]".repeat(70)
    );
    assert!(problems(&deep).contains("nested deeper than 64 levels"), "{}", problems(&deep));
}
