//! Arguments that a schema should refuse, and such that it allows and that trip programs over.

use json_schema::syntax::Keywords;
use serde_json::{Map, Value, json};

/// Most members of the schema that are abused one by one.
const MOST_MEMBERS: usize = 24;

/// Texts that are odd and valid JSON.
const ODD_TEXTS: [(&str, &str); 9] = [
    ("an empty text", ""),
    ("blanks", " \t\r\n "),
    ("a zero byte", "a\u{0}b"),
    ("text that runs from right to left", "\u{202e}abc\u{202c}"),
    ("characters of no width", "a\u{200b}\u{feff}\u{2060}b"),
    ("combining characters", "e\u{301}\u{302}\u{303}Z\u{334}"),
    ("characters beyond 16 bits", "\u{10ffff}🦀👩‍👩‍👧‍👦"),
    ("quotes and braces", "\"'`{{}}${x}%s</script>\\"),
    ("a path out of its folder", "../../../../etc/passwd"),
];

/// Texts that some programs take for numbers.
const ODD_NUMBERS: [&str; 6] = ["NaN", "Infinity", "-0", "1e309", "0x10", "٣"];

/// How large abuses are.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Bytes of the largest text.
    pub text: usize,
    /// Items of the largest list.
    pub items: usize,
    /// Levels of the deepest nesting.
    pub depth: usize,
}

impl Default for Size {
    fn default() -> Self {
        Self { text: 256 << 10, items: 10_000, depth: 100 }
    }
}

/// Arguments, and what is wrong or odd about them.
#[derive(Debug, Clone, PartialEq)]
pub struct Abuse {
    /// What it is, for reports.
    pub what: String,
    pub arguments: Map<String, Value>,
}

/// Abuses of a tool, made of arguments that are `valid`. The host refuses most of them by the schema; the
/// others reach the tool, which has to bear them. Each is made when it is asked for: there are hundreds, and
/// each has a copy of the arguments.
pub fn invalid(schema: &Value, valid: &Map<String, Value>, size: Size) -> impl Iterator<Item = Abuse> {
    let properties = Keywords::of(schema).members("properties");
    let names: Vec<&String> = properties.into_iter().flat_map(Map::keys).take(MOST_MEMBERS).collect();
    let huge = names.is_empty().then(|| {
        let text = json!("x".repeat(size.text));
        with(valid, "a huge argument that there is not", "no_such_argument", text)
    });
    let whole = [
        abuse("no arguments at all", Map::new()),
        with(valid, "an argument that there is not", "no_such_argument", json!(1)),
    ];
    let of_members = names
        .into_iter()
        .flat_map(move |name| without(valid, name).into_iter().chain(of_member(valid, name, size)));
    whole.into_iter().chain(of_members).chain(huge)
}

fn without(valid: &Map<String, Value>, name: &str) -> Option<Abuse> {
    valid.contains_key(name).then(|| {
        let rest = valid.iter().filter(|(key, _)| *key != name);
        let rest = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
        abuse(format!("without {name}"), rest)
    })
}

/// What one argument can be made instead.
fn of_member(valid: &Map<String, Value>, name: &str, size: Size) -> impl Iterator<Item = Abuse> {
    let wrong = [
        ("null", json!(null)),
        ("true", json!(true)),
        ("a number", json!(1.5)),
        ("a text", json!("text")),
        ("an empty list", json!([])),
        ("an empty object", json!({})),
        ("a negative number", json!(-1)),
        ("the largest whole number", json!(u64::MAX)),
        ("the smallest whole number", json!(i64::MIN)),
        ("a huge number", json!(1.7e308)),
        ("a tiny number", json!(5e-324)),
        ("minus zero", json!(-0.0)),
        ("deep nesting", nested(size.depth)),
        ("a huge text", json!("x".repeat(size.text))),
        ("a huge text of four-byte characters", json!("🦀".repeat(size.text / 4))),
        ("a huge list", Value::Array(vec![json!(0); size.items])),
        ("a huge list of texts", Value::Array(vec![json!("x"); size.items])),
    ];
    let all = wrong.into_iter().map(|(what, value)| (what.to_owned(), value));
    let texts = ODD_TEXTS.iter().map(|(what, text)| ((*what).to_owned(), json!(text)));
    let numbers = ODD_NUMBERS.iter().map(|text| (format!("the text {text:?}"), json!(text)));
    let values = all.chain(texts).chain(numbers);
    values.map(move |(what, value)| with(valid, &format!("{what} as {name}"), name, value))
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(
        json!(0),
        |inner, level| if level.is_multiple_of(2) { json!([inner]) } else { json!({ "a": inner }) },
    )
}

fn with(valid: &Map<String, Value>, what: &str, name: &str, value: Value) -> Abuse {
    let mut arguments = valid.clone();
    arguments.insert(name.to_owned(), value);
    abuse(what, arguments)
}

fn abuse(what: impl Into<String>, arguments: Map<String, Value>) -> Abuse {
    Abuse { what: what.into(), arguments }
}
