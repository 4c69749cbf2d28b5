//! The list of a server's tools as a version: canonical JSON, so that equal lists have equal digests.

use std::collections::{BTreeMap, BTreeSet};

use json_schema::MemoryBudget;
use json_schema::text_sanitizer::printable;
use serde_json::{Map, Value, json};

/// The form of the text. Another one would give every list another digest.
const FORM: u64 = 1;

/// What is kept of a tool: what the model reads and what the host goes by.
const FIELDS: [&str; 5] = ["name", "description", "inputSchema", "outputSchema", "annotations"];

/// What a server says of a tool, and the hints that mean the same.
const ANNOTATIONS: [(&str, &str); 3] =
    [("readOnlyHint", "read-only"), ("destructiveHint", "destructive"), ("idempotentHint", "idempotent")];

/// The tools of a server, by the names that models know them by.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolList(BTreeMap<String, RemoteTool>);

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteTool {
    /// What its server calls it.
    pub name: String,
    pub description: String,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub hints: Vec<(String, String)>,
}

/// The canonical text of a list of tools, each of which is JSON, as far as they are among `allow`.
pub(crate) fn write(listed: &[String], allow: &BTreeSet<String>) -> Result<Vec<u8>, String> {
    let mut memory = MemoryBudget::default();
    let listed = listed.iter().map(|tool| memory.read(tool.as_bytes()).map_err(|error| error.to_string()));
    let listed = listed.collect::<Result<Vec<_>, _>>()?;
    let mut tools: BTreeMap<&str, Value> = BTreeMap::new();
    for tool in &listed {
        let Some(name) = tool.get("name").and_then(Value::as_str).filter(|name| allow.contains(*name)) else {
            continue;
        };
        let fields = FIELDS.iter().filter_map(|field| Some(((*field).to_owned(), tool.get(field)?.clone())));
        let kept = sorted(Value::Object(fields.filter(|(_, value)| !value.is_null()).collect()));
        if tools.insert(name, kept).is_some() {
            return Err(format!("it has two tools of the name {name:?}"));
        }
    }
    if tools.is_empty() {
        return Err("it has none of the tools that its lines in the policy allow".into());
    }
    let tools: Vec<_> = tools.into_values().collect();
    Ok(sorted(json!({ "mcp": FORM, "tools": tools })).to_string().into_bytes())
}

/// With the members of objects by name, in whatever order they came.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<_, _> =
                members.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(members.into_iter().collect::<Map<_, _>>())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        value => value,
    }
}

impl ToolList {
    /// Whether these bytes are a list in the canonical form, and so no component.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(b"{")
            && MemoryBudget::default().read(bytes).is_ok_and(|list| list.get("mcp") == Some(&json!(FORM)))
    }

    /// Reads a canonical text, as far as its tools are among `allow` now. `server` begins the names.
    pub fn read(bytes: &[u8], server: &str, allow: &BTreeSet<String>) -> Result<Self, String> {
        let list = MemoryBudget::default().read(bytes).map_err(|_| not_a_list())?;
        let tools = list.get("tools").and_then(Value::as_array);
        let Some(tools) = tools.filter(|_| list.get("mcp") == Some(&json!(FORM))) else {
            return Err(not_a_list());
        };
        let mut read: BTreeMap<String, RemoteTool> = BTreeMap::new();
        for tool in tools {
            let tool = RemoteTool::read(tool, server)?;
            if !allow.contains(&tool.name) {
                continue;
            }
            let name = full_name(server, &tool.name);
            if let Some(other) = read.get(&name) {
                return Err(format!(
                    "its tools {:?} and {:?} would both be called {name:?}: allow one of them",
                    other.name, tool.name
                ));
            }
            read.insert(name, tool);
        }
        if read.is_empty() {
            return Err("it has none of the tools that its lines in the policy allow".into());
        }
        Ok(Self(read))
    }

    /// The tool that models know by a name.
    pub fn get(&self, name: &str) -> Option<&RemoteTool> {
        self.0.get(name)
    }

    /// The tools, with the names that models know them by.
    pub fn tools(&self) -> impl Iterator<Item = (&String, &RemoteTool)> {
        self.0.iter()
    }
}

impl RemoteTool {
    fn read(tool: &Value, server: &str) -> Result<Self, String> {
        let name = tool.get("name").and_then(Value::as_str).ok_or_else(not_a_list)?;
        let description = tool.get("description").and_then(Value::as_str).unwrap_or_default();
        let description = match description.trim() {
            "" => format!("The tool {} of the MCP server {server}.", printable(name, 128)),
            description => description.to_owned(),
        };
        let input_schema = tool.get("inputSchema").cloned();
        let hints = ANNOTATIONS.iter().filter_map(|(annotation, hint)| {
            let says = tool.get("annotations")?.get(annotation)?.as_bool()?;
            Some(((*hint).to_owned(), says.to_string()))
        });
        Ok(Self {
            hints: hints.collect(),
            name: name.to_owned(),
            description,
            input_schema: input_schema.unwrap_or_else(|| json!({ "type": "object" })),
            output_schema: tool.get("outputSchema").cloned(),
        })
    }
}

fn not_a_list() -> String {
    "it is no list of tools of an MCP server, and the policy names one of that name".into()
}

/// `<server>_<tool>`, both in snake case.
fn full_name(server: &str, tool: &str) -> String {
    format!("{}_{}", snake_case(server), snake_case(tool))
}

/// Words in lower case with `_` between them: a word begins where a lower-case letter or a digit is followed
/// by an upper-case one, before the last capital of a run that a word follows (`HTTPServer`), and at
/// everything that is no letter or digit.
fn snake_case(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 4);
    for (at, char) in chars.iter().enumerate() {
        if !char.is_ascii_alphanumeric() {
            if !snake.is_empty() && !snake.ends_with('_') {
                snake.push('_');
            }
            continue;
        }
        let before = at.checked_sub(1).and_then(|at| chars.get(at));
        let begins_word = before.is_some_and(|before| {
            let ends_run =
                before.is_ascii_uppercase() && chars.get(at + 1).is_some_and(char::is_ascii_lowercase);
            before.is_ascii_lowercase() || before.is_ascii_digit() || ends_run
        });
        if char.is_ascii_uppercase() && begins_word && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.push(char.to_ascii_lowercase());
    }
    snake.trim_end_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn tool(name: &str) -> Value {
        json!({ "name": name, "description": "Does it.", "inputSchema": { "type": "object" } })
    }

    fn written(tools: &[Value], allow: &BTreeSet<String>) -> Result<Vec<u8>, String> {
        write(&tools.iter().map(Value::to_string).collect::<Vec<_>>(), allow)
    }

    fn list(tools: &[Value], allowed: &[&str]) -> Result<ToolList, String> {
        let allow = allow(allowed);
        ToolList::read(&written(tools, &allow)?, "my-docs", &allow)
    }

    #[test]
    fn names_become_snake_case_behind_the_servers() {
        for (name, expected) in [
            ("search", "search"),
            ("getUserById", "get_user_by_id"),
            ("HTTPServer", "http_server"),
            ("list-all.items/now", "list_all_items_now"),
            ("already_snake__case_", "already_snake_case"),
            ("v2Beta", "v2_beta"),
            ("ABC", "abc"),
        ] {
            assert_eq!(snake_case(name), expected, "{name}");
        }
        assert!(list(&[tool("getUser")], &["getUser"]).unwrap().get("my_docs_get_user").is_some());
    }

    #[test]
    fn equal_lists_have_equal_texts_and_only_what_is_read_counts() {
        let one: Value =
            serde_json::from_str(r#"{"name":"a","inputSchema":{"type":"object","x":{"b":1,"a":2}}}"#)
                .unwrap();
        let other: Value = serde_json::from_str(
            r#"{"title":"A","_meta":{"n":1},"inputSchema":{"x":{"a":2,"b":1},"type":"object"},"name":"a","outputSchema":null}"#,
        )
        .unwrap();
        let allow = allow(&["a"]);
        let text = written(std::slice::from_ref(&one), &allow).unwrap();
        assert_eq!(text, written(&[tool("forbidden"), other], &allow).unwrap());
        let mut changed = one;
        changed["description"] = "Does something else.".into();
        assert_ne!(text, written(&[changed], &allow).unwrap());
    }

    #[test]
    fn what_cannot_be_served_is_refused_in_words() {
        let refused = |tools: &[Value], allowed: &[&str]| list(tools, allowed).unwrap_err();
        assert!(refused(&[tool("a"), tool("a")], &["a"]).contains("two tools of the name \"a\""));
        assert!(refused(&[tool("a")], &["b"]).contains("none of the tools"));
        let clash = refused(&[tool("get_user"), tool("getUser")], &["get_user", "getUser"]);
        assert!(clash.contains("\"getUser\"") && clash.contains("would both be called"), "{clash}");
        for bad in [&b"\0asm"[..], b"{}", br#"{"mcp":2,"tools":[]}"#, br#"{"tools":[]}"#] {
            let error = ToolList::read(bad, "docs", &allow(&["a"])).unwrap_err();
            assert!(error.contains("no list of tools"), "{error}");
        }
    }

    #[test]
    fn what_is_not_allowed_any_more_is_not_read_and_hints_are_what_the_server_says() {
        let mut hinted = tool("a");
        hinted["annotations"] = json!({ "readOnlyHint": true, "destructiveHint": "yes", "title": "A" });
        hinted["description"] = " ".into();
        let text = written(&[hinted, tool("b")], &allow(&["a", "b"])).unwrap();
        let list = ToolList::read(&text, "docs", &allow(&["a"])).unwrap();
        assert_eq!(list.tools().map(|(name, _)| name).collect::<Vec<_>>(), ["docs_a"]);
        let tool = list.get("docs_a").unwrap();
        assert_eq!(tool.hints, [("read-only".to_owned(), "true".to_owned())]);
        assert_eq!(tool.description, "The tool a of the MCP server docs.");
    }
}
