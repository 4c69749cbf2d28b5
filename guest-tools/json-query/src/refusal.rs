//! What goes wrong, in words for the model: what, and where in the query.

use std::fmt::Display;

use agent_tool_sdk::Failure;
use jaq_core::compile::Undefined;
use jaq_core::{compile, load};

use crate::recursion;

/// The longest quotation of a value in a message, in characters: errors of jaq quote values whole.
const LONGEST: usize = 400;

/// The JSON to query is not such as jaq reads.
pub(crate) fn of_json(problem: &impl Display) -> Failure {
    Failure::invalid_arguments(format!("`json` cannot be read: {problem}"))
}

/// The query has more to nest than a call has stack for.
pub(crate) fn of_length(most: usize) -> Failure {
    Failure::invalid_arguments(format!(
        "the query is too long: operators, dots and keywords count 1, `def` 2, brackets 3, and {most} are the most; hand in data as `json`"
    ))
}

/// The query does not follow the language's grammar.
pub(crate) fn of_syntax(query: &str, errors: load::Errors<&str, ()>) -> Failure {
    let mut problems = Vec::new();
    for (_, error) in errors {
        match error {
            load::Error::Io(files) => problems.extend(
                files
                    .iter()
                    .map(|(path, _)| (*path, format!("there are no modules here to import `{path}` from"))),
            ),
            load::Error::Lex(tokens) => problems.extend(
                tokens.iter().map(|(expected, found)| (*found, format!("expected {}", expected.as_str()))),
            ),
            load::Error::Parse(terms) => problems.extend(terms.iter().map(|(expected, found)| {
                let expected =
                    if expected.as_str() == "nothing" { "nothing more" } else { expected.as_str() };
                (*found, format!("expected {expected}"))
            })),
        }
    }
    refuse(query, &problems)
}

/// The query names what is not there.
pub(crate) fn of_names(query: &str, errors: compile::Errors<&str, ()>) -> Failure {
    let problems: Vec<_> = errors
        .into_iter()
        .flat_map(|(_, errors)| errors)
        .map(|(name, undefined)| {
            let what = match undefined {
                Undefined::Filter(0) => format!("there is no function `{name}` without arguments"),
                Undefined::Filter(1) => format!("there is no function `{name}` with 1 argument"),
                Undefined::Filter(arguments) => {
                    format!("there is no function `{name}` with {arguments} arguments")
                }
                other => format!("there is no {} `{name}`", other.as_str()),
            };
            (name, what)
        })
        .collect();
    refuse(query, &problems)
}

/// The query ran into an error.
pub(crate) fn at_run_time(problem: &impl Display) -> Failure {
    Failure::new("query-failed", shorten(&problem.to_string()))
}

fn refuse(query: &str, problems: &[(&str, String)]) -> Failure {
    let problems: Vec<_> = problems.iter().map(|(found, problem)| place(query, found, problem)).collect();
    Failure::invalid_arguments(format!("the query cannot be read: {}", problems.join("; ")))
}

/// Says where in the query a problem is. What is found there is a part of the guarded query's own text, so
/// its address tells.
fn place(query: &str, found: &str, problem: &str) -> String {
    let offset = (found.as_ptr() as usize).wrapping_sub(query.as_ptr() as usize);
    match query.get(..offset) {
        Some(before) if !found.is_empty() => {
            let (before, found) = (recursion::written(before), recursion::written(found));
            let word: String = found.chars().take(20).collect();
            format!("at character {} (`{word}`): {problem}", before.chars().count() + 1)
        }
        _ => format!("at its end: {problem}"),
    }
}

fn shorten(message: &str) -> String {
    match message.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}
