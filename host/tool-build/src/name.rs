//! Names of projects: they become names of files, of packages in three languages and of components in a
//! policy.

use crate::languages::Language;
use crate::{Error, Result};

/// The longest name, in bytes: what a tool's name may have, which is made of it.
const LONGEST: usize = 63;

/// Names that one of the languages or systems keeps for itself, as a package, a module or a file, with a
/// space between two.
const RESERVED: &str = "\
    agent-tool agent-host agent-tool-sdk aux build con core crate deps examples false incremental main \
    node nul null prn proc-macro sdk self std super target test tests tool true wit-world";

/// Words of Rust, Python and JavaScript, with a space between two: the template's function has the name.
const KEYWORDS: &str = "\
    abstract and as assert async await become box break case catch class const continue debugger def \
    default del delete do dyn elif else enum except export extends extern final finally fn for from \
    function gen global if impl import in instanceof interface is lambda let loop macro match mod move \
    mut new nonlocal not or override package pass priv private protected pub public raise ref return \
    static struct switch this throw trait try type typeof union unsafe unsized use var virtual void \
    where while with yield";

/// Names that the templates of a language use: a function of that name would take the place of what is meant.
fn used_in_templates(language: Language) -> &'static [&'static str] {
    match language {
        Language::Python => &["config", "dict", "http", "len", "log", "quote", "str"],
        // The tests of the example with HTTP have a function `look_up`, and import modules of the other
        // names: the tool's name would import the module a second time.
        Language::Rust => &["config", "http", "look-up"],
        // The name stands in a string.
        Language::JavaScript => &[],
    }
}

/// Checks the name of a new project: `[a-z][a-z0-9]*(-[a-z0-9]+)*`, not too long, not reserved, and not used
/// in the templates of its language.
///
/// # Errors
/// Says what is wrong with it, and proposes a name when one is near.
pub fn check(name: &str, language: Language) -> Result<()> {
    let is_used = used_in_templates(language).contains(&name);
    let used = || {
        is_used.then(|| format!("the project's own sources in {language} use that name for something else"))
    };
    let Some(why) = problem(name).or_else(used) else { return Ok(()) };
    let shown: String = name.chars().filter(|char| !char.is_control()).take(80).collect();
    let error = Error::new(format!("`{shown}` cannot be the name of a tool's project")).why(why);
    let proposal = if is_used { Some(format!("my-{name}")) } else { propose(name) };
    Err(match proposal {
        Some(proposal) => error.mend(format!("take a name such as `{proposal}`")),
        None => {
            error.mend("take a short name of lower-case letters, digits and hyphens, such as `order-lookup`")
        }
    })
}

fn problem(name: &str) -> Option<String> {
    let all = |may: fn(char) -> bool| name.chars().all(may);
    let why = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.contains(['/', '\\']) || name.starts_with('.') {
        "it is a path: the project is made in the current folder, or in the one that --in names".to_owned()
    } else if name.len() > LONGEST {
        format!("it has {} bytes and may have {LONGEST}", name.len())
    } else if name.contains(|char: char| char.is_ascii_uppercase()) {
        "it has capitals: some file systems do not tell them from small letters".to_owned()
    } else if !all(|char| matches!(char, 'a'..='z' | '0'..='9' | '-')) {
        "it has other characters than a-z, 0-9 and hyphens".to_owned()
    } else if !name.starts_with(|char: char| char.is_ascii_lowercase()) {
        "it does not begin with a letter".to_owned()
    } else if name.ends_with('-') || name.contains("--") {
        "a hyphen stands between two letters or digits, by itself".to_owned()
    } else if is_reserved(name) {
        "the languages and systems that tools are built with keep that name for themselves".to_owned()
    } else {
        return None;
    };
    Some(why)
}

fn is_reserved(name: &str) -> bool {
    RESERVED.split(' ').chain(KEYWORDS.split(' ')).any(|word| word == name)
}

/// A name that is allowed and looks like this one.
fn propose(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).find(|part| !part.is_empty())?;
    let mut proposal = String::new();
    for char in last.chars().flat_map(char::to_lowercase) {
        match char {
            'a'..='z' | '0'..='9' => proposal.push(char),
            _ if !proposal.is_empty() && !proposal.ends_with('-') => proposal.push('-'),
            _ => {}
        }
        if proposal.len() == LONGEST / 2 {
            break;
        }
    }
    let mut proposal =
        proposal.trim_start_matches(|char: char| !char.is_ascii_lowercase()).trim_end_matches('-').to_owned();
    if is_reserved(&proposal) {
        proposal.insert_str(0, "my-");
    }
    problem(&proposal).is_none().then_some(proposal)
}

#[cfg(test)]
mod tests {
    use super::{check, problem, propose, used_in_templates};
    use crate::languages::Language;
    use crate::templates::{Example, files};

    #[test]
    fn good_names_pass() {
        for name in ["a", "greeter", "order-lookup", "a1-b2", &"x".repeat(63)] {
            check(name, Language::Rust).unwrap();
        }
    }

    /// The tests of a template in Rust import modules, and the tool by its name: a module of that name twice.
    #[test]
    fn a_name_of_a_module_that_the_tests_in_rust_import_is_refused() {
        let sources = [Example::Greeting, Example::Http].map(|example| {
            let found = files(Language::Rust, example).into_iter().find(|(path, _)| *path == "src/lib.rs");
            found.and_then(|(_, text)| text.split_once("mod tests")).unwrap().1
        });
        let imported = |text: &str| {
            let names = text.lines().filter_map(|line| line.trim().strip_prefix("use agent_tool_sdk::{"));
            let names = names.flat_map(|names| names.trim_end_matches("};").split(", "));
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        let names: Vec<_> = sources.iter().flat_map(|text| imported(text)).collect();
        assert!(names.len() > 1, "{names:?}");
        for name in names {
            assert!(check(&name, Language::Rust).is_err(), "{name}");
        }
    }

    /// What a module of the template has imported, or a built-in function that it calls, would be the tool.
    #[test]
    fn a_name_that_the_template_uses_is_refused_in_its_language_alone() {
        let imported = |language: Language| {
            let sources = [Example::Greeting, Example::Http].map(|example| {
                let files = files(language, example).into_iter();
                files.filter(|(path, _)| *path == "tools.py").map(|(_, text)| text).collect::<String>()
            });
            let lines = sources.join("\n");
            let names = lines.lines().filter_map(|line| line.split_once(" import ")).map(|(_, names)| names);
            names.flat_map(|names| names.split(", ")).map(str::to_owned).collect::<Vec<_>>()
        };
        let names = imported(Language::Python);
        assert!(names.len() > 5, "{names:?}");
        for name in names.iter().filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase())) {
            assert!(check(name, Language::Python).is_err(), "{name}");
        }
        for language in [Language::Python, Language::Rust] {
            for name in used_in_templates(language) {
                let refused = check(name, language).unwrap_err().to_string();
                assert!(refused.contains(&format!("`my-{name}`")), "{refused}");
                check(&format!("my-{name}"), language).unwrap();
                check(name, Language::JavaScript).unwrap();
            }
        }
    }

    #[test]
    fn bad_names_are_refused_with_a_name_that_would_do() {
        let long = "x".repeat(64);
        let names = [
            "",
            ".",
            "..",
            "../evil",
            "/etc/passwd",
            "a/b",
            "a\\b",
            ".hidden",
            "Greeter",
            "my tool",
            "my_tool",
            "über",
            "1st",
            "-a",
            "a-",
            "a--b",
            "con",
            "tool",
            "class",
            "new\nline",
            "日本",
            &long,
        ];
        let errors: Vec<_> = names.map(|name| check(name, Language::Python).unwrap_err().to_string()).into();
        insta::assert_snapshot!(errors.join("\n"));
        for proposal in names.into_iter().filter_map(propose) {
            assert_eq!(problem(&proposal), None, "{proposal}");
        }
    }
}
