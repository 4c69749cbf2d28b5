//! `agent-tool test`: a component's cases with mocked HTTP, then abuse of it, then what its calls cost.
//!
//! `cases`: the cases, each in a host of its own. `abuse`: everything that a tool has to bear. `report`: what
//! came of it.

mod abuse;
mod cases;
mod report;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use host_setup::output::print;
use host_setup::program::Exit;
use serde_json::Value;
use tool_host::PolicyFile;
use tool_kit::cases::{self as case_file, CaseFile};
use tool_kit::cost::Budget;
use tool_kit::people::{AnswerLine, Reply};

use crate::isolated::{ComponentFile, Setup};
use report::{Report, Tested};

/// The file of cases, in the folder of a tool.
const CASES: &str = "cases.toml";

/// What to test, and against what.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A component, or a folder with one and its cases.toml
    #[arg(value_name = "FOLDER|FILE", default_value = ".")]
    place: PathBuf,
    /// The cases, in place of cases.toml beside the component
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
    /// Grant it what this policy says. Without one it is granted what its cases mock
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Answer a question that no case answers, as JSON: "blue" in its quotes, 3, true. Once for each
    /// question, in order
    #[arg(long = "answer", value_name = "JSON", value_parser = read_answer)]
    answers: Vec<Value>,
    /// Leave the abuse away
    #[arg(long)]
    no_abuse: bool,
    /// Fail when half of a tool's calls take longer
    #[arg(long, value_name = "MILLISECONDS", value_parser = read_milliseconds)]
    budget_ms: Option<f64>,
    /// Fail when a call has more memory
    #[arg(long, value_name = "BYTES")]
    budget_memory: Option<u64>,
    /// Fail when a tool adds more tokens to every call of the model
    #[arg(long, value_name = "TOKENS")]
    budget_tokens: Option<u64>,
    /// Make other arguments: a report names the seed that it was made with
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let setup = Setup::new()?;
    let (cases, cases_path) = read_cases(arguments)?;
    let file = find_component(&arguments.place, &cases, cases_path.as_deref())?;
    let policy = arguments.policy.clone().map(PolicyFile::At);
    let answer =
        |value: &Value| AnswerLine { line: None, question: None, reply: Reply::Value(value.clone()) };
    let answers = arguments.answers.iter().map(answer).collect();
    let tested = Tested { setup, file, cases, cases_path, policy, answers, seed: arguments.seed };
    let mut report = Report::new(&tested);
    cases::run(&tested, &mut report).await?;
    if !arguments.no_abuse && report.refusal.is_none() {
        abuse::run(&tested, &mut report).await?;
    }
    report.hold_against(&Budget {
        p50_ms: arguments.budget_ms,
        memory_bytes: arguments.budget_memory,
        prompt_tokens: arguments.budget_tokens,
    });
    let text = if json { report.to_json()? } else { report.to_text() };
    print(&text)?;
    Ok(if report.is_ok() { Exit::Success } else { Exit::Failure })
}

fn read_answer(text: &str) -> Result<Value, String> {
    let quoted = || format!("it is no JSON: a text stands in quotes, as in --answer '{}'", Value::from(text));
    serde_json::from_str(text).map_err(|_error| quoted())
}

/// A number that a time can be held against: with `nan` or `inf` no tool would ever be too slow.
fn read_milliseconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "it is no number above 0, such as 50 or 2.5".to_owned())
}

/// The cases, and the file that they stand in; no cases if there is no such file and none was named.
fn read_cases(arguments: &Arguments) -> anyhow::Result<(CaseFile, Option<PathBuf>)> {
    let folder = match arguments.place.is_dir() {
        true => arguments.place.as_path(),
        false => arguments.place.parent().unwrap_or(Path::new("")),
    };
    let path = match &arguments.cases {
        Some(path) => path.clone(),
        None => {
            let beside = if folder == Path::new(".") { PathBuf::from(CASES) } else { folder.join(CASES) };
            if !beside.exists() {
                return Ok((CaseFile::default(), None));
            }
            beside
        }
    };
    let text = fs::read_to_string(&path).with_context(|| format!("reading the cases {}", path.display()))?;
    let cases = case_file::parse(&text)
        .map_err(|problems| anyhow::anyhow!("{} is no case file:\n{problems}", path.display()))?;
    Ok((cases, Some(path)))
}

/// The component that was named, that the cases name, or the only one in the folder.
fn find_component(
    place: &Path,
    cases: &CaseFile,
    cases_path: Option<&Path>,
) -> anyhow::Result<ComponentFile> {
    if place.is_file() {
        return ComponentFile::read(place);
    }
    if !place.is_dir() {
        bail!("there is no {}: name a component or the folder of one", place.display());
    }
    if let Some(named) = &cases.component {
        let folder = cases_path.and_then(Path::parent).unwrap_or(place);
        return ComponentFile::read(&folder.join(named)).with_context(|| {
            format!("the component that the cases name (component = {named:?}): build it first")
        });
    }
    let mut found = vec![];
    for entry in fs::read_dir(place).with_context(|| format!("looking into {}", place.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wasm") && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    match found.as_slice() {
        [only] => ComponentFile::read(only),
        [] => bail!(
            "there is no component in {}: build it first (`agent-tool build`), name it, or write component = \"…\" into {CASES}",
            place.display()
        ),
        several => {
            let names: Vec<_> = several.iter().map(|path| path.display().to_string()).collect();
            bail!("there are several components in {}: name one of {}", place.display(), names.join(", "))
        }
    }
}
