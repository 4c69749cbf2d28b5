//! The cases of a component, one after the other, each in a host of its own: with what it mocks and nothing
//! of another.

use std::path::Path;

use host_setup::advice;
use tool_host::{ErrorKind, ToolListing};
use tool_kit::cases::Case;
use tool_kit::expectation::Answer;
use tool_kit::people::AnswerLine;
use tool_kit::upstream::Mock;

use super::report::{CaseResult, Report, Tested};
use crate::isolated::{Grants, Isolated, Probe, Upstreams, granting};

/// Runs every case.
pub(super) async fn run(tested: &Tested, report: &mut Report) -> anyhow::Result<()> {
    // One host before all, so that a component that is refused is said once.
    let first = start(tested, None).await?;
    report.refusal = first.refusal();
    report.tools = first.tools();
    if report.refusal.is_some() {
        return Ok(());
    }
    for case in &tested.cases.cases {
        let result = match start(tested, Some(case)).await {
            Ok(isolated) => run_one(tested, &isolated, case, report).await,
            Err(error) => {
                let problem = format!("the policy that is made of the case cannot be used: {error:#}");
                CaseResult { problems: vec![problem], ..begun(tested, case) }
            }
        };
        report.cases.push(result);
    }
    Ok(())
}

/// A host that grants what a case needs.
pub(super) async fn start(tested: &Tested, case: Option<&Case>) -> anyhow::Result<Isolated> {
    let grants = match &tested.policy {
        Some(policy) => Grants::Policy(policy.clone()),
        None => {
            let inspection = tested.file.inspect(&tool_host::PolicyFile::None);
            Grants::Made(granting((&tested.file.name, &inspection.digest), inspection.wants, case))
        }
    };
    Isolated::start(&tested.setup, &tested.file, grants).await
}

/// What the questions of a case are answered with: its own answers, or those of the command line.
pub(super) fn answers<'a>(tested: &'a Tested, case: Option<&'a Case>) -> &'a [AnswerLine] {
    case.map(|case| &*case.answers).filter(|own| !own.is_empty()).unwrap_or(&tested.answers)
}

/// The result of a case in which nothing was wrong so far.
fn begun(tested: &Tested, case: &Case) -> CaseResult {
    let file = tested.cases_path.as_deref().unwrap_or(Path::new("")).display();
    CaseResult {
        name: case.name.clone(),
        place: format!("{file}:{}", case.line),
        problems: vec![],
        command: None,
    }
}

/// Failures that no request ends with: the tool would be told of another one.
fn unknown_failures(case: &Case) -> impl Iterator<Item = String> {
    case.http.iter().filter_map(|line| match &line.answer {
        Mock::Fails(reason) if ErrorKind::from_name(reason).is_none() => Some(format!(
            "line {} of the case file: no request fails with {reason:?}; it may with \"connection-refused\", \
             \"connection-timeout\" or \"dns-timeout\"",
            line.line
        )),
        _ => None,
    })
}

async fn run_one(tested: &Tested, isolated: &Isolated, case: &Case, report: &mut Report) -> CaseResult {
    let mut result = begun(tested, case);
    result.problems.extend(unknown_failures(case));
    if !result.problems.is_empty() {
        return result;
    }
    if let Some(refusal) = isolated.refusal() {
        result.problems.push(format!("the component is refused under what the case grants: it {refusal}"));
        return result;
    }
    let tool = match choose(case, &isolated.tools()) {
        Ok(tool) => tool,
        Err(problem) => {
            result.problems.push(problem);
            return result;
        }
    };
    let mut probe = Probe::new(isolated, &tested.file).answering(answers(tested, Some(case)));
    let called = probe.call(&tool, &case.arguments, Upstreams::Lines(&case.http), None).await;
    let answer = Answer { outcome: called.outcome(), code: called.code(), content: &called.returned.content };
    report.costs.extend(probe.take_costs());
    result.problems = isolated.http.problems();
    result.problems.extend(isolated.people.problems());
    result.problems.extend(case.expect.differences(&answer));
    if result.problems.is_empty() {
        return result;
    }
    if case.expect.error.is_none() {
        result.problems.extend(advice::of(called.outcome()).map(str::to_owned));
    }
    result.problems.extend(called.log.iter().take(3).map(|line| format!("it logged: {line}")));
    if let Some(learned) = isolated.learned(&tool) {
        let asked = learned.lines.lines().filter_map(|line| line.strip_prefix("# It asked"));
        result.problems.extend(asked.map(|line| format!("it asked{line}")));
    }
    result.command = Some(probe.command(&tool, &case.arguments));
    result
}

/// The tool that a case calls.
fn choose(case: &Case, tools: &[ToolListing]) -> Result<String, String> {
    let names = || tools.iter().map(|tool| tool.tool.as_str()).collect::<Vec<_>>().join(", ");
    match &case.tool {
        Some(named) if tools.iter().any(|tool| tool.tool == *named) => Ok(named.clone()),
        Some(named) => Err(format!("the component has no tool {named:?}; it has {}", names())),
        None => match tools {
            [only] => Ok(only.tool.clone()),
            _ => Err(format!("the component has several tools: add tool = \"…\", one of {}", names())),
        },
    }
}
