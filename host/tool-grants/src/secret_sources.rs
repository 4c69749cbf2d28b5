//! The values of secrets: out of the environment or files into [`Secret`], which cannot be printed.
//!
//! Values are read when a component is loaded, on every reload of the policy, and by a call whose grants are
//! not kept, such as the first one of a run under way after the policy changed. A call waits for that up to
//! its deadline. The environment is asked through a function, because only one file of the binary reads it. A
//! value that is not there or of no use is a problem that says which secret, which source and what to do, and
//! nothing of the value.

use std::collections::BTreeMap;
use std::path::Path;

use agent_core::secret::Secret;
use tool_policy::model::{ComponentPolicy, Placement, SecretRule, SecretSource};

use super::bounded_file;

/// Most bytes of a secret. Servers take headers of 8 KiB at most.
const MOST_BYTES: usize = 8 << 10;

/// The values of one component's secrets, by name.
pub(crate) type Secrets = BTreeMap<String, Secret>;

/// Secrets that are not there or of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub(crate) struct SecretProblems(Vec<SecretProblem>);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the secret {secret:?} of the component {component:?}: {what}")]
pub(crate) struct SecretProblem {
    pub(crate) component: String,
    pub(crate) secret: String,
    /// What is wrong and what to do.
    pub(crate) what: String,
}

/// Reads all secrets of a component. `environment` looks a variable up; relative paths are relative to
/// `folder`, the policy's. Blocks.
pub(crate) fn resolve(
    entry: &ComponentPolicy,
    environment: &dyn Fn(&str) -> Option<String>,
    folder: &Path,
) -> Result<Secrets, SecretProblems> {
    let mut secrets = Secrets::new();
    let mut problems = vec![];
    for (name, rule) in &entry.secrets {
        match read(name, rule, environment, folder) {
            Ok(secret) => _ = secrets.insert(name.clone(), secret),
            Err(what) => {
                problems.push(SecretProblem { component: entry.name.clone(), secret: name.clone(), what });
            }
        }
    }
    if problems.is_empty() { Ok(secrets) } else { Err(SecretProblems(problems)) }
}

fn read(
    name: &str,
    rule: &SecretRule,
    environment: &dyn Fn(&str) -> Option<String>,
    folder: &Path,
) -> Result<Secret, String> {
    let (source, text, remedy) = match &rule.source {
        SecretSource::Env(variable) => {
            let source = format!("the environment variable {variable}");
            let remedy = "set it";
            let text = environment(variable).ok_or_else(|| absent(&source, "is not set", remedy))?;
            (source, text, remedy)
        }
        SecretSource::File(path) => {
            let path = folder.join(path);
            let path = if path.is_dir() { path.join(name) } else { path };
            let source = format!("the file {:?}", path.display().to_string());
            let remedy = "write the secret into it and let the service read it";
            // One byte more for the line's end.
            let text = bounded_file::read_text(&path, MOST_BYTES as u64 + 2)
                .map_err(|error| absent(&source, &format!("is of no use: {error}"), remedy))?;
            (source, trim_line_end(text), remedy)
        }
    };
    check(&text, &rule.placement).map_err(|wrong| absent(&source, wrong, remedy))?;
    Ok(Secret::new(text))
}

fn absent(source: &str, wrong: &str, remedy: &str) -> String {
    format!("{source} {wrong}; {remedy}, or take the secret out of the policy")
}

/// One, because editors and `echo` end files with it.
fn trim_line_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

/// Whether the value can stand where it is to stand.
fn check(text: &str, placement: &Placement) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    if text.len() > MOST_BYTES {
        return Err("has more bytes than a secret may have (8192)");
    }
    if text.chars().any(char::is_control) {
        return Err("has a line break or another control character in it");
    }
    let is_header = matches!(placement, Placement::Header { .. });
    if is_header && !text.is_ascii() {
        return Err("has a character that is not ASCII, which a header cannot have");
    }
    if is_header && text.trim_ascii() != text {
        return Err("begins or ends with a space");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::entry_with;
    use super::*;

    fn secret(source: &str, place: &str) -> String {
        format!(
            "[[component.http]]\nhost = \"a.test\"\n[[component.secret]]\nname = \"key\"\n{source}\n{place}\nhosts = [\"a.test\"]\n"
        )
    }

    fn resolved(source: &str, place: &str, folder: &Path) -> Result<String, String> {
        let entry = entry_with(&secret(source, place));
        let environment = |name: &str| match name {
            "KEY" => Some("hunter2".to_owned()),
            "EMPTY" => Some(String::new()),
            "BROKEN" => Some("hunter2\r\nx-admin: 1".to_owned()),
            "GREEK" => Some("κωδικός".to_owned()),
            "SPACED" => Some(" hunter2".to_owned()),
            "LONG" => Some("x".repeat(MOST_BYTES + 1)),
            _ => None,
        };
        let secrets = resolve(&entry, &environment, folder);
        assert!(!format!("{secrets:?}").contains("hunter2"), "{secrets:?}");
        match secrets {
            Ok(secrets) => Ok(secrets["key"].expose().to_owned()),
            Err(problems) => {
                let text = problems.to_string();
                let whose = "the secret \"key\" of the component \"a\": ";
                Err(text.strip_prefix(whose).unwrap_or_else(|| panic!("{text}")).to_owned())
            }
        }
    }

    #[test]
    fn variables_are_read_as_they_are_or_said_to_be_of_no_use() {
        let of =
            |variable: &str, place: &str| resolved(&format!("env = \"{variable}\""), place, Path::new("/"));
        let header = "header = \"authorization\"";
        assert_eq!(of("KEY", header).as_deref(), Ok("hunter2"));
        assert_eq!(of("GREEK", "query = \"q\"").as_deref(), Ok("κωδικός"));
        assert_eq!(of("SPACED", "basic = \"u\"").as_deref(), Ok(" hunter2"));
        let rows = [
            ("MISSING", "is not set"),
            ("EMPTY", "is empty"),
            ("BROKEN", "has a line break or another control character in it"),
            ("GREEK", "has a character that is not ASCII, which a header cannot have"),
            ("SPACED", "begins or ends with a space"),
            ("LONG", "has more bytes than a secret may have (8192)"),
        ];
        for (variable, wrong) in rows {
            let expected = format!(
                "the environment variable {variable} {wrong}; set it, or take the secret out of the policy"
            );
            assert_eq!(of(variable, header), Err(expected));
        }
    }

    #[test]
    fn files_lose_one_line_end_and_folders_have_a_file_for_each_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let of = |path: &str| resolved(&format!("file = {path:?}"), "query = \"q\"", folder.path());
        for (text, expected) in [("hunter2", "hunter2"), ("hunter2\n", "hunter2"), ("hunter2\r\n", "hunter2")]
        {
            file("one", text);
            assert_eq!(of("one").as_deref(), Ok(expected), "{text:?}");
        }
        file("one", "hunter2\n\n");
        assert!(of("one").unwrap_err().contains("has a line break"));
        let mounted = folder.path().join("mounted");
        fs::create_dir(&mounted).unwrap();
        fs::write(mounted.join("key"), "hunter2").unwrap();
        assert_eq!(of("mounted").as_deref(), Ok("hunter2"));
        assert_eq!(of(mounted.to_str().unwrap()).as_deref(), Ok("hunter2"), "an absolute path");
        file("long", &"x".repeat(MOST_BYTES + 3));
        assert!(of("long").unwrap_err().contains("it has more than 8194 bytes"));
        let gone = of("gone").unwrap_err();
        let expected = format!(
            "the file {:?} is of no use: it cannot be read: No such file or directory (os error 2); write the secret into it \
             and let the service read it, or take the secret out of the policy",
            folder.path().join("gone").display().to_string()
        );
        assert_eq!(gone, expected);
    }

    #[test]
    fn all_secrets_that_are_missing_are_said_at_once() {
        let two = "[[component.http]]\nhost = \"a.test\"\n[[component.secret]]\nname = \"k1\"\nenv = \"A\"\nquery = \"a\"\n\
                   hosts = [\"a.test\"]\n[[component.secret]]\nname = \"k2\"\nenv = \"B\"\nquery = \"b\"\nhosts = [\"a.test\"]\n";
        let problems = resolve(&entry_with(two), &|_| None, Path::new("/")).unwrap_err();
        let names: Vec<_> = problems.0.iter().map(|problem| problem.secret.as_str()).collect();
        assert_eq!(names, ["k1", "k2"]);
    }
}
