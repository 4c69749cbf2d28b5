//! A tool as its component describes it, checked and made ready to be called.

use std::time::Duration;

use agent_core::words::{TOOL_NAME_BYTES, is_tool_name};
use agent_core::words::{ToolHints, ToolSpec};
use json_schema::text_sanitizer::{is_smuggled, printable, visible};
use json_schema::{Fuel, MemoryBudget, Misfit, ReadError, Schema, SchemaBudget};
use serde_json::Value;

use crate::bindings::exports::agent::tool::tool::ToolDef;
use crate::component::mends::{answers_no_json, proposed_name, with_mend};
use crate::component::moving_average::MeanTime;
use crate::error::LoadError;

/// Longest description, in bytes: it is part of every model call.
const DESCRIPTION_BYTES: usize = 4 << 10;

/// Most hints of a tool, and the most bytes of a key and of a value.
const HINTS: usize = 16;
const HINT_KEY_BYTES: usize = 64;
const HINT_VALUE_BYTES: usize = 256;

/// Most memory of one value that is held against a schema, beside its text. Reserved for what is checked
/// outside of the serving threads, so as many of them exist at once as there are permits for such checks.
const VALUE_BYTES: usize = 56 << 20;

/// The hints that mean something to this host.
const KNOWN_HINTS: [&str; 6] = ["read-only", "idempotent", "destructive", "pure", "asks", "timeout-ms"];

/// One tool of a component.
#[derive(Debug)]
pub(crate) struct Definition {
    /// What the model is told.
    pub(crate) spec: ToolSpec,
    /// What the tool says of itself, key and value.
    pub(crate) hints: Vec<(String, String)>,
    /// Whether a call changes nothing, as the tool says.
    pub(crate) is_read_only: bool,
    /// Whether equal arguments always have equal answers, as the tool says.
    pub(crate) is_pure: bool,
    /// What the tool itself asks to be stopped after.
    pub(crate) timeout: Option<Duration>,
    /// How long its calls take on the mean.
    pub(crate) run_time: MeanTime,
    /// What is odd about the description but no reason to refuse it, for the operator.
    pub(crate) oddities: Vec<String>,
    arguments: Schema,
    output: Option<Schema>,
}

impl Definition {
    /// Checks what a component said. Schemas are programs of a stranger: preparing them is paid for
    /// from `budget`.
    pub(crate) fn new(described: ToolDef, budget: &mut SchemaBudget) -> Result<Self, LoadError> {
        let name = described.name.clone();
        Self::check(described, budget)
            .map_err(|problem| LoadError::Definition { tool: printable(&name, TOOL_NAME_BYTES), problem })
    }

    fn check(described: ToolDef, budget: &mut SchemaBudget) -> Result<Self, String> {
        check_name(&described.name)?;
        if described.description.len() > DESCRIPTION_BYTES {
            return Err(format!(
                "its description is longer than {DESCRIPTION_BYTES} bytes, and every model call carries it: leave out what a failure can teach"
            ));
        }
        let description = visible(&described.description);
        if description.trim().is_empty() {
            return Err("it has no description: say what it does and when to use it (in Rust, in the comment above its line in agent_tool_sdk::export!)".into());
        }
        let mut arguments = Schema::read(&described.input_schema, budget)
            .map_err(|problem| format!("its input schema {}", with_mend(problem, &described.input_schema)))?;
        if arguments.text.get("type").and_then(Value::as_str) != Some("object") {
            return Err(r#"its input schema is not of type object, as arguments always are: write {"type": "object", "properties": {…}}"#.into());
        }
        show_to_models(&mut arguments.text).map_err(|problem| format!("its input schema {problem}"))?;
        let output = match &described.output_schema {
            Some(text) => Some(
                Schema::read(text, budget)
                    .map_err(|problem| format!("its output schema {}", with_mend(problem, text)))?,
            ),
            None => None,
        };
        let oddities = check_hints(&described.hints)?;
        let timeout = read_timeout(&described.hints)?;
        let says = |key: &str| described.hints.iter().any(|(own, value)| own == key && value == "true");
        let is_read_only = says("read-only") && !says("destructive");
        let spec = ToolSpec {
            hints: read_hints(&described.hints),
            name: described.name,
            description,
            input_schema: arguments.text.clone(),
            // What destroys something is never done twice, whatever else the tool says.
            is_repeatable: (is_read_only || says("idempotent")) && !says("destructive"),
            is_destructive: says("destructive"),
            // What it may call is the policy's.
            calls_tools: false,
            may_ask: false,
            is_replayable: false,
        };
        let is_pure = says("pure") && !says("destructive");
        let run_time = MeanTime::default();
        Ok(Self {
            spec,
            hints: described.hints,
            is_pure,
            is_read_only,
            timeout,
            run_time,
            oddities,
            arguments,
            output,
        })
    }

    /// The schema of its answers, if it has one.
    pub(crate) fn output_schema(&self) -> Option<&Value> {
        self.output.as_ref().map(|schema| &schema.text)
    }

    /// The policy lets it call the run's other tools. What those do may not bear being done twice, whatever
    /// it says of itself.
    pub(crate) fn calls_tools(&mut self) {
        (self.spec.calls_tools, self.spec.is_repeatable) = (true, false);
        self.spec.hints = ToolHints::default();
    }

    /// The policy lets it ask people. Unless it says that it never does, that is shown among its hints.
    pub(crate) fn asks(&mut self) {
        match self.hints.iter().find(|(key, _)| key == "asks") {
            Some((_, value)) => self.spec.may_ask = value != "false",
            None => {
                self.spec.may_ask = true;
                self.hints.push(("asks".to_owned(), "true".to_owned()));
            }
        }
    }

    /// Notes that the tool's component does nothing but compute, call tools and ask.
    pub(crate) fn is_replayable(&mut self) {
        self.spec.is_replayable = true;
    }

    /// Notes whether the tool's component sends requests, or cannot.
    pub(crate) fn reaches_out(&mut self, may: bool) {
        self.spec.hints.open_world = Some(may);
    }

    /// Holds a call's arguments against their schema. What is wrong is for the model.
    pub(crate) fn check_arguments(&self, arguments: &Value, fuel: &mut Fuel) -> Result<(), Misfit> {
        self.arguments.check(arguments, "the arguments", fuel)
    }

    /// Checks arguments that are written down as JSON text.
    pub(crate) fn check_arguments_text(&self, text: &str, fuel: &mut Fuel) -> Result<(), Misfit> {
        fuel.spend(text.len() as u64 / 8)?;
        self.check_arguments(&read(text)?, fuel)
    }

    /// Holds a returned value against its schema, or at least against JSON. What is wrong is for the
    /// operator.
    pub(crate) fn check_output(&self, text: &str, fuel: &mut Fuel) -> Result<(), Misfit> {
        // Reading costs steps too, and what nobody waits for any more is not even read.
        fuel.spend(text.len() as u64 / 8)?;
        let Some(schema) = &self.output else {
            return serde_json::from_str::<serde::de::IgnoredAny>(text).map(|_| ()).map_err(answers_no_json);
        };
        let value = MemoryBudget::new(VALUE_BYTES).read(text.as_bytes()).map_err(|error| match error {
            ReadError::Json(error) => answers_no_json(error),
            ReadError::TooLarge { .. } => Misfit::TooCostly,
        })?;
        schema.check(&value, "the output", fuel).map_err(|misfit| match misfit {
            Misfit::Wrong(problem) => Misfit::Wrong(format!(
                "{problem}: return what its output schema says, or write into the schema what it returns"
            )),
            Misfit::TooCostly => Misfit::TooCostly,
        })
    }
}

/// Reads JSON of a stranger.
pub(crate) fn read(text: &str) -> Result<Value, Misfit> {
    MemoryBudget::new(VALUE_BYTES).read(text.as_bytes()).map_err(|error| match error {
        ReadError::Json(error) => not_json(error),
        ReadError::TooLarge { .. } => Misfit::TooCostly,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err has it")]
fn not_json(error: serde_json::Error) -> Misfit {
    Misfit::Wrong(format!("not JSON: {error}"))
}

/// Takes what cannot be seen out of the texts of a schema that models read, and refuses a schema that hides
/// text anywhere else, where taking it out would change what the schema means.
fn show_to_models(part: &mut Value) -> Result<(), String> {
    let hides = |text: &str| {
        let shown = printable(text, TOOL_NAME_BYTES);
        text.chars().any(is_smuggled).then(|| format!("hides characters that cannot be seen in {shown:?}"))
    };
    match part {
        Value::String(text) => hides(text).map_or(Ok(()), Err),
        Value::Array(parts) => parts.iter_mut().try_for_each(show_to_models),
        Value::Object(members) => members.iter_mut().try_for_each(|(key, value)| match value {
            Value::String(text) if matches!(key.as_str(), "title" | "description" | "$comment") => {
                *text = visible(text);
                Ok(())
            }
            value => hides(key).map_or_else(|| show_to_models(value), Err),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if is_tool_name(name) {
        return Ok(());
    }
    let proposed = proposed_name(name).map(|name| format!(": take {name:?}")).unwrap_or_default();
    Err(format!("its name must be a letter a-z and then up to 62 of a-z, 0-9 and '_'{proposed}"))
}

/// Refuses hints that are too many or too long, and names those that were probably meant to be others.
fn check_hints(hints: &[(String, String)]) -> Result<Vec<String>, String> {
    if hints.len() > HINTS {
        return Err(format!("it has more than {HINTS} hints"));
    }
    let mut oddities = Vec::new();
    for (key, value) in hints {
        let shown = printable(key, HINT_KEY_BYTES);
        if key.len() > HINT_KEY_BYTES || value.len() > HINT_VALUE_BYTES {
            return Err(format!(
                "its hint {shown:?} is too long: a key may have {HINT_KEY_BYTES} bytes, a value {HINT_VALUE_BYTES}"
            ));
        }
        if printable(key, HINT_KEY_BYTES) != *key || printable(value, HINT_VALUE_BYTES) != *value {
            return Err(format!("its hint {shown:?} has characters that cannot be seen"));
        }
        if hints.iter().filter(|(other, _)| other == key).count() > 1 {
            return Err(format!("it has the hint {shown:?} twice: leave one"));
        }
        if let Some(known) = meant_hint(key) {
            oddities.push(format!("the hint {shown:?} means nothing to this host; did you mean {known:?}?"));
        }
        if matches!(key.as_str(), "read-only" | "idempotent" | "destructive" | "pure" | "asks")
            && !matches!(value.as_str(), "true" | "false")
        {
            oddities.push(format!("the hint {shown:?} is {value:?}; it should be \"true\" or \"false\""));
        }
    }
    Ok(oddities)
}

/// The known hint that an unknown one differs from by its punctuation, its case or a letter or two.
fn meant_hint(key: &str) -> Option<&'static str> {
    let letters = |text: &str| {
        text.chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|char| char.to_ascii_lowercase())
            .collect::<String>()
    };
    if KNOWN_HINTS.contains(&key) {
        return None;
    }
    let found = letters(key);
    KNOWN_HINTS.into_iter().find(|known| {
        let known = letters(known);
        found == known || (found.len() > 4 && (known.starts_with(&found) || found.starts_with(&known)))
    })
}

/// What a tool says of its calls, as clients are told. What contradicts itself is read as the worse of the
/// two.
fn read_hints(hints: &[(String, String)]) -> ToolHints {
    let says = |key: &str| hints.iter().find(|(own, _)| own == key).map(|(_, value)| value == "true");
    let (destructive, idempotent) = (says("destructive"), says("idempotent"));
    let read_only = match destructive {
        Some(true) => Some(false),
        Some(false) | None => says("read-only"),
    };
    // What changes nothing destroys nothing, and does so a second time.
    let follows = (read_only == Some(true)).then_some(true);
    ToolHints {
        read_only,
        destructive: destructive.or(follows.map(|_| false)),
        idempotent: idempotent.or(follows),
        open_world: None,
    }
}

fn read_timeout(hints: &[(String, String)]) -> Result<Option<Duration>, String> {
    let Some((_, text)) = hints.iter().find(|(key, _)| key == "timeout-ms") else { return Ok(None) };
    match text.parse::<u64>() {
        Ok(milliseconds @ 1..) => Ok(Some(Duration::from_millis(milliseconds))),
        Ok(0) | Err(_) => {
            Err("its hint timeout-ms is not a whole number above 0: write milliseconds, such as 5000".into())
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;

    fn described() -> ToolDef {
        ToolDef {
            name: "add".into(),
            description: "Adds two numbers.".into(),
            input_schema: r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},
                "required":["a","b"],"additionalProperties":false}"#
                .into(),
            output_schema: Some(r#"{"type":"object","required":["sum"]}"#.into()),
            hints: vec![],
        }
    }

    /// A tool that says these of itself.
    pub(crate) fn hinted(hints: &[&str]) -> Definition {
        let hints = hints.iter().map(|key| ((*key).to_owned(), "true".to_owned())).collect();
        Definition::new(ToolDef { hints, ..described() }, &mut budget()).unwrap()
    }

    fn problem(change: impl FnOnce(&mut ToolDef)) -> String {
        let mut described = described();
        change(&mut described);
        Definition::new(described, &mut budget()).unwrap_err().to_string()
    }

    fn budget() -> SchemaBudget {
        SchemaBudget::until(Instant::now() + Duration::from_secs(60))
    }

    fn fuel() -> Fuel {
        Fuel::until(Instant::now() + Duration::from_secs(60))
    }

    fn wrong(checked: Result<(), Misfit>) -> String {
        match checked {
            Err(Misfit::Wrong(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_wrong_description_is_refused_in_words() {
        let wrongly = r#"describes its tool "add" wrongly: "#;
        let of = |change: fn(&mut ToolDef)| problem(change).replace(wrongly, "");
        insta::assert_snapshot!(of(|d| d.description = " ".into()), @"it has no description: say what it does and when to use it (in Rust, in the comment above its line in agent_tool_sdk::export!)");
        insta::assert_snapshot!(of(|d| d.description = "x".repeat(20_000)), @"its description is longer than 4096 bytes, and every model call carries it: leave out what a failure can teach");
        insta::assert_snapshot!(of(|d| d.input_schema = r#"{"type":"array"}"#.into()), @r#"its input schema is not of type object, as arguments always are: write {"type": "object", "properties": {…}}"#);
        insta::assert_snapshot!(of(|d| d.output_schema = Some(r#"{"type":5}"#.into())), @r#"its output schema is not a JSON Schema: /type is 5, not one of "null", "boolean", "integer", "number", "string", "array" and "object""#);
        insta::assert_snapshot!(of(|d| d.hints = vec![("timeout-ms".into(), "soon".into())]), @"its hint timeout-ms is not a whole number above 0: write milliseconds, such as 5000");
        for name in ["", "Add", "1st", "a-b", "a b", &"x".repeat(64), "añ", "a\n"] {
            assert!(problem(|d| d.name = name.into()).contains("its name must be a letter"), "{name:?}");
        }
    }

    #[test]
    fn wrong_arguments_are_named_for_the_model() {
        let tool = Definition::new(described(), &mut budget()).unwrap();
        assert_eq!(tool.check_arguments(&json!({"a": 1, "b": 2}), &mut fuel()), Ok(()));
        assert_eq!(tool.check_arguments_text(r#"{"a": 1, "b": 2}"#, &mut fuel()), Ok(()));
        let bad = json!({"a": "1", "c": "x".repeat(1000)});
        let text = wrong(tool.check_arguments(&bad, &mut fuel()));
        assert!(text.contains(r#"/a: "1" is not of type "number""#), "{text}");
        assert!(text.contains(r#""b" is a required property"#), "{text}");
        assert!(text.contains("'c' was unexpected") && text.len() < 1000, "{text}");
    }

    #[test]
    fn outputs_are_held_to_the_schema_or_at_least_to_json() {
        let tool = Definition::new(described(), &mut budget()).unwrap();
        let check = |text: &str| tool.check_output(text, &mut fuel());
        assert_eq!(check(r#"{"sum":3}"#), Ok(()));
        assert!(check("{}").is_err());
        assert!(wrong(check("")).starts_with("not JSON"));
        let free = ToolDef { output_schema: None, ..described() };
        let free = Definition::new(free, &mut budget()).unwrap();
        assert_eq!(free.check_output("[1]", &mut fuel()), Ok(()));
        assert!(free.check_output("[1", &mut fuel()).is_err());
        assert!(free.check_output("1 2", &mut fuel()).is_err());
    }

    #[test]
    fn what_cannot_be_seen_is_not_told_to_models() {
        let hidden = "\u{e0041}\u{200b}";
        let schema = json!({"type": "object", "title": format!("T{hidden}"),
            "properties": {"description": {"type": "string", "description": format!("D{hidden}")}}});
        let tool = ToolDef {
            description: format!("Adds.{hidden}"),
            input_schema: schema.to_string(),
            ..described()
        };
        let spec = Definition::new(tool, &mut budget()).unwrap().spec;
        assert_eq!(spec.description, "Adds.");
        assert_eq!(
            spec.input_schema,
            json!({"type": "object", "title": "T", "properties": {"description": {"type": "string", "description": "D"}}})
        );
        for hiding in [json!({ format!("a{hidden}"): true }), json!({"a": {"enum": [format!("x{hidden}")]}})]
        {
            let schema = json!({"type": "object", "properties": hiding}).to_string();
            let text = problem(|d| d.input_schema = schema);
            assert!(text.contains("hides characters that cannot be seen in"), "{text}");
        }
    }

    #[test]
    fn clients_are_told_what_a_tool_says_and_the_worse_of_what_contradicts_itself() {
        let told = |hints: &[(&str, &str)]| {
            let hints = hints.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let spec = Definition::new(ToolDef { hints, ..described() }, &mut budget()).unwrap().spec;
            [spec.hints.read_only, spec.hints.destructive, spec.hints.idempotent, spec.hints.open_world]
        };
        let (yes, no) = (Some(true), Some(false));
        for (hints, expected) in [
            (&[][..], [None; 4]),
            (&[("read-only", "true")], [yes, no, yes, None]),
            (&[("read-only", "false")], [no, None, None, None]),
            (&[("destructive", "true"), ("read-only", "true")], [no, yes, None, None]),
            (&[("destructive", "false"), ("idempotent", "true")], [None, no, yes, None]),
            (&[("read-only", "true"), ("idempotent", "false")], [yes, no, no, None]),
        ] {
            assert_eq!(told(hints), expected, "{hints:?}");
        }
        let mut definition = hinted(&["read-only"]);
        definition.reaches_out(false);
        assert_eq!(definition.spec.hints.open_world, Some(false));
        definition.calls_tools();
        assert_eq!(definition.spec.hints, ToolHints::default(), "what it calls may do anything");
    }

    #[test]
    fn hints_are_bounded_and_those_meant_to_be_others_are_named() {
        let hint = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
        assert!(
            problem(|d| d.hints = vec![(String::new(), String::new()); 17]).contains("more than 16 hints")
        );
        assert!(problem(|d| d.hints = hint(&"k".repeat(65), "")).contains("is too long"));
        assert!(problem(|d| d.hints = hint("k", &"v".repeat(257))).contains("is too long"));
        assert!(problem(|d| d.hints = hint("k", "\u{e0041}")).contains("cannot be seen"));
        let odd = |hints| {
            Definition::new(ToolDef { hints, ..described() }, &mut budget()).unwrap().oddities.join("\n")
        };
        insta::assert_snapshot!(odd(hint("read_only", "true")), @r#"the hint "read_only" means nothing to this host; did you mean "read-only"?"#);
        insta::assert_snapshot!(odd(hint("timeout", "5")), @r#"the hint "timeout" means nothing to this host; did you mean "timeout-ms"?"#);
        insta::assert_snapshot!(odd(hint("read-only", "yes")), @r#"the hint "read-only" is "yes"; it should be "true" or "false""#);
        assert_eq!(odd(hint("x-team", "search")), "");
    }
}
