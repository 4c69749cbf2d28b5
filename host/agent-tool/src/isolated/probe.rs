//! Calls that try a tool out: counted, judged, and made smaller when they end badly.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use agent_core::words::ToolOutcome;
use host_setup::advice;
use host_setup::output::plain;
use serde_json::{Map, Value};
use tool_kit::cost::{Costs, Sample};
use tool_kit::finding::{Finding, Weight};
use tool_kit::generate::smaller;
use tool_kit::people::AnswerLine;
use tool_kit::promises::ObservedCalls;
use tool_kit::upstream::{HttpLine, Trouble};
use tool_kit::{command, expectation};

use super::{Called, ComponentFile, Isolated};

/// Most calls, and the longest, that arguments are made smaller for.
const MOST_SHRINKING: usize = 120;
const LONGEST_SHRINKING: Duration = Duration::from_secs(20);

/// What the requests of a call are answered with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Upstreams<'a> {
    /// Nobody answers.
    Nobody,
    /// The lines given, each once.
    Lines(&'a [HttpLine]),
    /// Every request meets this trouble.
    Trouble(Trouble),
}

/// Calls the tools of one component.
pub(crate) struct Probe<'a> {
    pub(crate) isolated: &'a Isolated,
    file: &'a ComponentFile,
    costs: Costs,
    seen: BTreeMap<String, ObservedCalls>,
    /// Outcomes that were reported, by tool: one of each is enough.
    reported: Vec<(String, ToolOutcome)>,
    /// What the questions of each call are answered with.
    answers: &'a [AnswerLine],
}

impl<'a> Probe<'a> {
    pub(crate) fn new(isolated: &'a Isolated, file: &'a ComponentFile) -> Self {
        Self {
            isolated,
            file,
            costs: Costs::default(),
            seen: BTreeMap::new(),
            reported: vec![],
            answers: &[],
        }
    }

    /// The questions of each call are answered with these.
    pub(crate) fn answering(self, answers: &'a [AnswerLine]) -> Self {
        Self { answers, ..self }
    }

    /// What the calls cost since it was taken last.
    pub(crate) fn take_costs(&mut self) -> Costs {
        std::mem::take(&mut self.costs)
    }

    /// What calls of a tool were seen to do.
    pub(crate) fn seen(&self, tool: &str) -> ObservedCalls {
        self.seen.get(tool).cloned().unwrap_or_default()
    }

    pub(crate) async fn call(
        &mut self,
        tool: &str,
        arguments: &Map<String, Value>,
        upstreams: Upstreams<'_>,
        limit: Option<Duration>,
    ) -> Called {
        let Isolated { http, values, people, .. } = self.isolated;
        match upstreams {
            Upstreams::Nobody => http.answer_nothing(),
            Upstreams::Lines(lines) => http.answer_with(lines),
            Upstreams::Trouble(trouble) => http.trouble_with(trouble),
        }
        people.answer_with(self.answers);
        let _before = (http.take_asked(), values.take_counts());
        let called = self.isolated.call(tool, arguments, limit).await;
        if let Some(cost) = called.cost {
            let seen = self.seen.entry(tool.to_owned()).or_default();
            seen.calls += 1;
            seen.requests.extend(http.take_asked());
            let (reads, writes) = values.take_counts();
            seen.reads += reads;
            seen.writes += writes;
            let sample = Sample {
                milliseconds: (cost.instantiate + cost.run).as_secs_f64() * 1e3,
                memory_bytes: cost.peak_memory_bytes as u64,
                fuel: cost.fuel,
                output_bytes: called.returned.content.len() as u64,
            };
            // What abuse costs says nothing of what calls cost.
            if matches!(upstreams, Upstreams::Nobody | Upstreams::Lines(_))
                && called.outcome() == ToolOutcome::Ok
            {
                self.costs.add(tool, sample);
            }
        }
        called
    }

    /// Calls a tool, and says what it did wrong: with the smallest arguments for which it does.
    pub(crate) async fn try_out(
        &mut self,
        tool: &str,
        (what, arguments): (&str, &Map<String, Value>),
        upstreams: Upstreams<'_>,
    ) -> (Called, Option<Finding>) {
        let called = self.call(tool, arguments, upstreams, None).await;
        let outcome = called.outcome();
        if !is_bad(&called) || self.reported.iter().any(|(other, same)| other == tool && *same == outcome) {
            return (called, None);
        }
        self.reported.push((tool.to_owned(), outcome));
        let (smallest, last) = self.shrink(tool, arguments, upstreams, &called).await;
        let last = last.as_ref().unwrap_or(&called);
        let mut text = format!("with {what} it {}: {}", said(last), expectation_text(last));
        for line in last.log.iter().filter(|line| !line.starts_with("tool call ")).take(3) {
            text.push_str(&format!("\nit logged: {line}"));
        }
        text.push_str(&format!("\nwith no more than {}", short(&smallest)));
        if let Some(advice) = advice::of(outcome) {
            text.push_str(&format!("\n{advice}"));
        }
        let mut finding = Finding::new(Weight::Fault, Some(tool), text);
        finding.command = Some(self.command(tool, &smallest));
        (called, Some(finding))
    }

    /// The command that makes a call again. Arguments that are long are written to a file.
    pub(crate) fn command(&self, tool: &str, arguments: &Map<String, Value>) -> String {
        let folder = self.file.folder();
        let text = Value::Object(arguments.clone()).to_string();
        if text.len() <= command::MOST_BYTES {
            return command::to_call_again(&folder, tool, arguments);
        }
        let written = tempfile::Builder::new().prefix("agent-tool-arguments-").suffix(".json").tempfile();
        let kept = written.and_then(|file| {
            fs::write(file.path(), &text)?;
            file.into_temp_path().keep().map_err(Into::into)
        });
        match kept {
            Ok(path) => command::to_call_again_from(&folder, tool, &path.display().to_string()),
            Err(_) => command::to_call_again(&folder, tool, arguments),
        }
    }

    /// The smallest arguments that end in the same way, and the call with them if they are others.
    async fn shrink(
        &mut self,
        tool: &str,
        arguments: &Map<String, Value>,
        upstreams: Upstreams<'_>,
        called: &Called,
    ) -> (Map<String, Value>, Option<Called>) {
        let until = Instant::now() + LONGEST_SHRINKING;
        let (mut smallest, mut last) = (arguments.clone(), None);
        let mut calls = 0;
        loop {
            let mut found = None;
            for next in smaller(&smallest) {
                if calls >= MOST_SHRINKING || Instant::now() > until {
                    break;
                }
                calls += 1;
                let again = self.call(tool, &next, upstreams, None).await;
                if again.outcome() == called.outcome() {
                    found = Some((next, again));
                    break;
                }
            }
            let Some((next, again)) = found else { return (smallest, last) };
            (smallest, last) = (next, Some(again));
        }
    }
}

/// Whether a call ended as none should: a tool answers, or fails with a code.
pub(crate) fn is_bad(called: &Called) -> bool {
    match called.outcome() {
        ToolOutcome::Ok | ToolOutcome::InvalidArguments => false,
        ToolOutcome::Failed => called.code().is_none_or(str::is_empty),
        _ => true,
    }
}

/// How a call ended, as the end of a sentence.
fn said(called: &Called) -> String {
    match called.outcome() {
        ToolOutcome::Trapped => "traps".to_owned(),
        ToolOutcome::TimedOut => "does not end in time".to_owned(),
        ToolOutcome::MemoryLimit => "wants more memory than it may have".to_owned(),
        ToolOutcome::OutputLimit => "answers more than it may".to_owned(),
        ToolOutcome::InvalidOutput => "has an answer that is refused".to_owned(),
        ToolOutcome::Failed => "fails without a code".to_owned(),
        other => format!("ends with {}", other.as_str()),
    }
}

/// What the host knows of it, else what the model is told.
fn expectation_text(called: &Called) -> String {
    let detail = called.returned.receipt.detail.as_ref();
    let cause = detail.and_then(|detail| detail.cause.clone());
    let text = cause.unwrap_or_else(|| called.returned.content.clone());
    // A backtrace of numbers helps nobody.
    let text = text.split(": error while executing").next().unwrap_or_default();
    plain(expectation::cut(text).trim())
}

/// Arguments, cut if they are long.
fn short(arguments: &Map<String, Value>) -> String {
    plain(&expectation::cut(&Value::Object(arguments.clone()).to_string()))
}
