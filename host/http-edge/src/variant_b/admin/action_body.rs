//! What stands in the bodies of changes, uploads apart. An empty body is `{}`. Unlike under `/api/` a key that is not
//! known is an issue: whoever writes `thresold` must not begin a trial with the default ones.

use agent_core::ports::{TrialOptions, TrialRequest};
use agent_core::words::Thresholds;
use serde_json::{Map, Value, json};

use super::super::validation_issue::{Issue, Issues, Path};
use super::digest;

/// Most keys that are complained about.
const MOST_UNKNOWN: usize = 10;

/// More calls than a trial has.
const MOST_CALLS: u32 = 1_000_000_000;

/// Beyond that a p99 is not compared at all.
const MOST_RATIO: u32 = 1_000_000;

const DIGEST: Path = &["digest"];
const FACTS: Path = &["facts"];
const SHARE: Path = &["share"];
const THRESHOLDS: Path = &["thresholds"];

/// The keys of thresholds.
const OF_THRESHOLDS: &[&str] =
    &["maxErrorRate", "maxP99Ratio", "maxTraps", "minAgreement", "minCalls", "passAfter", "promote"];

/// What [`read_nothing`] takes, by name.
pub(super) fn nothing_schema() -> (&'static str, Value) {
    let schema = json!({
        "type": "object", "additionalProperties": false, "description": "Nothing is to be said.", "examples": [{}],
    });
    ("NoOptions", schema)
}

/// What [`read_digest`] takes, by name.
pub(super) fn digest_schema() -> (&'static str, Value) {
    let digest = digest::schema("The version. Without it the obvious one.");
    let schema = json!({
        "type": "object", "additionalProperties": false, "description": "Which version.",
        "properties": { "digest": digest },
    });
    ("VersionChoice", schema)
}

/// What [`read_approval`] takes, by name.
pub(super) fn approval_schema() -> (&'static str, Value) {
    let schema = json!({
        "type": "object", "additionalProperties": false, "description": "Which version may serve.",
        "properties": {
            "digest": digest::schema("The version. Without it the newest proposal."),
            "facts": digest::schema(
                "The digest of the facts that were looked at. An approved version that describes itself otherwise now \
                 (`described` of the component) is approved anew only with it.",
            ),
            "serve": {
                "type": "boolean", "default": true, "examples": [true],
                "description": "Whether it serves at once. Otherwise it can be tried first.",
            },
        },
    });
    ("Approval", schema)
}

/// What [`read_trial`] takes, by name.
pub(super) fn trial_schema() -> (&'static str, Value) {
    let TrialOptions { share, thresholds } = TrialOptions::default();
    let count = |description: &str, default: u64| {
        json!({ "type": "integer", "minimum": 0, "maximum": MOST_CALLS, "default": default,
                "description": description, "examples": [default] })
    };
    let number = |description: &str, most: u32, default: f64| {
        json!({ "type": "number", "minimum": 0, "maximum": most, "default": default,
                "description": description, "examples": [default] })
    };
    let promote = json!({
        "type": "boolean", "default": thresholds.promote, "examples": [false],
        "description": "Whether a version that has passed serves from then on.",
    });
    let properties = json!({
        "minCalls": count("Calls before anything but traps is judged.", thresholds.min_calls),
        "maxErrorRate": number("Most that its share of failed calls may be above the old one's.", 1, thresholds.max_error_rate),
        "maxTraps": count("Most calls that may end in a trap.", thresholds.max_traps),
        "maxP99Ratio": number("Most that its p99 may be of the old one's.", MOST_RATIO, thresholds.max_p99_ratio),
        "minAgreement": number("Least share of a shadow's answers that must be equal.", 1, thresholds.min_agreement),
        "passAfter": count("Calls after which it has passed; 0: never by itself.", thresholds.pass_after),
        "promote": promote,
    });
    let schema = json!({
        "type": "object", "additionalProperties": false, "description": "Which version is tried, and how.",
        "properties": {
            "digest": digest::schema("The version. Without it the newest proposal."),
            "share": {
                "type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": share, "examples": [share],
                "description": "The share of the calls or runs that it gets.",
            },
            "thresholds": {
                "type": "object", "additionalProperties": false, "properties": properties,
                "description": "When it has failed and when it has passed.",
            },
        },
    });
    ("TrialRequest", schema)
}

/// `{}`.
pub(super) fn read_nothing(body: Value) -> Result<(), Issues> {
    let mut issues = Issues::default();
    Fields::of(body, &[], &[], &mut issues)?;
    all_right((), issues)
}

/// `{"digest"?}`.
pub(super) fn read_digest(body: Value) -> Result<Option<String>, Issues> {
    let mut issues = Issues::default();
    let fields = Fields::of(body, &[], &["digest"], &mut issues)?;
    let digest = fields.digest(&mut issues);
    all_right(digest, issues)
}

/// `{"digest"?, "facts"?, "serve"?}`: the version, the digest of what was seen of it, and whether it serves at
/// once.
pub(super) fn read_approval(body: Value) -> Result<(Option<String>, Option<String>, bool), Issues> {
    let mut issues = Issues::default();
    let fields = Fields::of(body, &[], &["digest", "facts", "serve"], &mut issues)?;
    let (digest, facts) = (fields.digest(&mut issues), fields.digest_at(FACTS, &mut issues));
    let approval = (digest, facts, fields.truth(&["serve"], &mut issues).unwrap_or(true));
    all_right(approval, issues)
}

/// `{"digest"?, "share"?, "thresholds"?}`.
pub(super) fn read_trial(body: Value) -> Result<TrialRequest, Issues> {
    let mut issues = Issues::default();
    let mut fields = Fields::of(body, &[], &["digest", "share", "thresholds"], &mut issues)?;
    let digest = fields.digest(&mut issues);
    let share = fields.number(SHARE, [0, 1], &mut issues).unwrap_or(TrialOptions::default().share);
    if share == 0.0 {
        issues.0.push(Issue::custom("Number must be greater than 0", SHARE));
    }
    let thresholds = match fields.0.remove("thresholds") {
        Some(thresholds) => read_thresholds(thresholds, &mut issues)?,
        None => Thresholds::default(),
    };
    all_right(TrialRequest { digest, options: TrialOptions { share, thresholds } }, issues)
}

fn read_thresholds(value: Value, issues: &mut Issues) -> Result<Thresholds, Issues> {
    let fields = Fields::of(value, THRESHOLDS, OF_THRESHOLDS, issues)?;
    let default = Thresholds::default();
    Ok(Thresholds {
        min_calls: fields.count(&["thresholds", "minCalls"], issues).unwrap_or(default.min_calls),
        max_error_rate: fields
            .number(&["thresholds", "maxErrorRate"], [0, 1], issues)
            .unwrap_or(default.max_error_rate),
        max_traps: fields.count(&["thresholds", "maxTraps"], issues).unwrap_or(default.max_traps),
        max_p99_ratio: fields
            .number(&["thresholds", "maxP99Ratio"], [0, MOST_RATIO], issues)
            .unwrap_or(default.max_p99_ratio),
        min_agreement: fields
            .number(&["thresholds", "minAgreement"], [0, 1], issues)
            .unwrap_or(default.min_agreement),
        pass_after: fields.count(&["thresholds", "passAfter"], issues).unwrap_or(default.pass_after),
        promote: fields.truth(&["thresholds", "promote"], issues).unwrap_or(default.promote),
    })
}

fn all_right<T>(value: T, issues: Issues) -> Result<T, Issues> {
    if issues.0.is_empty() { Ok(value) } else { Err(issues) }
}

/// The fields of an object. Each is read at its path, whose last part is its key; what is wrong with it is noted.
struct Fields(Map<String, Value>);

impl Fields {
    /// The fields of the object at `path`, which has no others than the known ones.
    fn of(value: Value, path: Path, known: &[&str], issues: &mut Issues) -> Result<Self, Issue> {
        let Value::Object(fields) = value else {
            return Err(Issue::wrong_type("object", Some(&value), path));
        };
        let unknown = fields.keys().filter(|key| !known.contains(&key.as_str()));
        issues.0.extend(unknown.take(MOST_UNKNOWN).map(|key| Issue::unknown_key(key, known, path)));
        Ok(Self(fields))
    }

    fn read<T>(
        &self,
        path: Path,
        issues: &mut Issues,
        read: impl FnOnce(&Value) -> Result<T, Issue>,
    ) -> Option<T> {
        let value = self.0.get(*path.last()?)?;
        issues.check(read(value))
    }

    fn digest(&self, issues: &mut Issues) -> Option<String> {
        self.digest_at(DIGEST, issues)
    }

    fn digest_at(&self, path: Path, issues: &mut Issues) -> Option<String> {
        self.read(path, issues, |value| {
            let text = value.as_str().ok_or_else(|| Issue::wrong_type("string", Some(value), path))?;
            digest::check(text, path)
        })
    }

    fn number(&self, path: Path, range: [u32; 2], issues: &mut Issues) -> Option<f64> {
        self.read(path, issues, |value| {
            let number = value.as_f64().ok_or_else(|| Issue::wrong_type("number", Some(value), path))?;
            Issue::out_of_range(number, range, path).map_or(Ok(number), Err)
        })
    }

    fn count(&self, path: Path, issues: &mut Issues) -> Option<u64> {
        self.read(path, issues, |value| {
            let number = value.as_f64().ok_or_else(|| Issue::wrong_type("number", Some(value), path))?;
            match Issue::out_of_range(number, [0, MOST_CALLS], path) {
                Some(issue) => Err(issue),
                None if number.fract() != 0.0 => Err(Issue::received("integer", "float", path)),
                // The range fits into the type.
                None => Ok(number as u64),
            }
        })
    }

    fn truth(&self, path: Path, issues: &mut Issues) -> Option<bool> {
        self.read(path, issues, |value| {
            value.as_bool().ok_or_else(|| Issue::wrong_type("boolean", Some(value), path))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threshold_that_there_is_can_be_set() {
        let all = serde_json::to_value(Thresholds::default()).unwrap();
        let keys: Vec<_> = all.as_object().unwrap().keys().collect();
        assert_eq!(keys, OF_THRESHOLDS);
        let wanted = Thresholds {
            min_calls: 1,
            max_error_rate: 0.1,
            max_traps: 2,
            max_p99_ratio: 3.0,
            min_agreement: 0.4,
            pass_after: 5,
            promote: true,
        };
        let read = read_trial(json!({"share": 0.5, "thresholds": wanted})).unwrap();
        assert_eq!(read.options, TrialOptions { share: 0.5, thresholds: wanted });
    }
}
