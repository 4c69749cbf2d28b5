//! Everything that a tool has to bear: arguments made from its schema, valid and invalid, upstreams in
//! trouble, callers who go away. It answers or fails with a code; it never traps, runs out of time or memory,
//! or answers otherwise afterwards.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use agent_core::words::ToolOutcome;
use serde_json::{Map, Value};
use tool_host::ToolListing;
use tool_kit::expectation;
use tool_kit::finding::{Finding, Weight};
use tool_kit::generate::{Generator, Size, invalid};
use tool_kit::promises::Promises;
use tool_kit::upstream::{HttpLine, QUICK_TROUBLES, Trouble};

use super::cases;
use super::report::{AbuseResult, Report, Tested};
use crate::isolated::{Probe, Upstreams, is_bad};

/// How many valid arguments are made up.
const VALID: usize = 40;

/// Longest that one tool is abused. What is left is left away, and the report says so.
const LONGEST: Duration = Duration::from_secs(60);

/// How long a call is given whose upstream never answers.
const SILENCE: Duration = Duration::from_millis(300);

/// Abuses every tool.
pub(super) async fn run(tested: &Tested, report: &mut Report) -> anyhow::Result<()> {
    for tool in report.tools.clone() {
        if io::stderr().is_terminal() {
            // silent-ok: progress is worth no failure.
            let _ = writeln!(io::stderr(), "agent-tool: abusing {}", tool.tool);
        }
        let result = abuse(tested, &tool, report).await?;
        report.abuse.push(result);
    }
    Ok(())
}

/// A call of the tool that should always go well.
struct Usual<'a> {
    arguments: Map<String, Value>,
    lines: Option<&'a [HttpLine]>,
}

impl Usual<'_> {
    fn upstreams(&self) -> Upstreams<'_> {
        self.lines.map_or(Upstreams::Nobody, Upstreams::Lines)
    }
}

struct Abuse<'a> {
    probe: Probe<'a>,
    tool: &'a ToolListing,
    seed: u64,
    until: Instant,
    result: AbuseResult,
}

async fn abuse(tested: &Tested, tool: &ToolListing, report: &mut Report) -> anyhow::Result<AbuseResult> {
    // A case that passed knows what the tool needs.
    let is_its = |name: &Option<String>| name.as_deref().is_none_or(|name| name == tool.tool);
    let passed = |name: &str| report.cases.iter().any(|case| case.name == name && case.problems.is_empty());
    let case = tested
        .cases
        .cases
        .iter()
        .find(|case| is_its(&case.tool) && case.expect.error.is_none() && passed(&case.name));
    let isolated = cases::start(tested, case).await?;
    let inspection = tested.file.inspect(&tool_host::PolicyFile::None);
    let usual = match case {
        Some(case) => Usual { arguments: case.arguments.clone(), lines: Some(&case.http) },
        None => Usual { arguments: Generator::new(&tool.input_schema, tested.seed).valid(), lines: None },
    };
    let mut abuse = Abuse {
        probe: Probe::new(&isolated, &tested.file).answering(cases::answers(tested, case)),
        tool,
        seed: tested.seed,
        until: Instant::now() + LONGEST,
        result: AbuseResult { tool: tool.tool.clone(), ..AbuseResult::default() },
    };
    let before = abuse.usual_answers(&usual).await;
    abuse.valid().await;
    abuse.invalid(&usual).await;
    if inspection.wants.http {
        abuse.troubled(&usual).await;
    }
    abuse.cancelled(&usual, inspection.wants.http).await;
    abuse.was_called();
    let reads_clocks = inspection.imports.iter().any(|import| {
        ["agent:tool/clock@", "agent:tool/context@", "wasi:clocks/", "wasi:random/"]
            .iter()
            .any(|clock| import.name.starts_with(clock))
    });
    let promises = Promises::of(&tool.hints);
    if promises.pure || (promises.read_only && !reads_clocks) {
        abuse.same_as(&usual, before).await;
    }
    let broken = promises.broken(&tool.tool, &abuse.probe.seen(&tool.tool));
    abuse.result.findings.extend(broken);
    report.costs.extend(abuse.probe.take_costs());
    Ok(abuse.result)
}

impl Abuse<'_> {
    /// What the usual call answers, if it answers the same twice.
    async fn usual_answers(&mut self, usual: &Usual<'_>) -> Option<String> {
        let mut answers = vec![];
        for _ in 0..2 {
            let called = self.probe.call(&self.tool.tool, &usual.arguments, usual.upstreams(), None).await;
            answers.push((called.outcome() == ToolOutcome::Ok).then_some(called.returned.content));
        }
        let last = answers.pop().flatten();
        if answers.pop().flatten() == last { last } else { None }
    }

    async fn try_out(
        &mut self,
        what: &str,
        arguments: &Map<String, Value>,
        upstreams: Upstreams<'_>,
    ) -> ToolOutcome {
        let (called, found) = self.probe.try_out(&self.tool.tool, (what, arguments), upstreams).await;
        self.result.findings.extend(found);
        called.outcome()
    }

    /// A test in which the tool never ran has tested nothing.
    fn was_called(&mut self) {
        if self.probe.seen(&self.tool.tool).calls > 0 {
            return;
        }
        let text = "it was never called: the host refused all arguments that were made from its input schema, so nothing was tested; \
                    add a case that passes or \"examples\" to the schema, and look at `agent-tool check`: a schema that \
                    nothing fits is named there";
        self.result.findings.push(Finding::new(Weight::Fault, Some(&self.tool.tool), text));
    }

    fn is_over(&mut self) -> bool {
        self.result.is_cut |= Instant::now() > self.until;
        self.result.is_cut
    }

    async fn valid(&mut self) {
        let mut generator = Generator::new(&self.tool.input_schema, self.seed);
        for _ in 0..VALID {
            if self.is_over() {
                return;
            }
            let arguments = generator.valid();
            let outcome = self.try_out("valid arguments", &arguments, Upstreams::Nobody).await;
            self.result.valid += 1;
            self.result.valid_refused += usize::from(outcome == ToolOutcome::InvalidArguments);
            if outcome == ToolOutcome::TimedOut {
                return;
            }
        }
    }

    async fn invalid(&mut self, usual: &Usual<'_>) {
        let (mut timed_out, tool) = (0, self.tool);
        for abuse in invalid(&tool.input_schema, &usual.arguments, Size::default()) {
            // A tool that hangs is known by now, and every further call takes as long.
            if self.is_over() || timed_out > 2 {
                self.result.is_cut = true;
                return;
            }
            let outcome = self.try_out(&abuse.what, &abuse.arguments, Upstreams::Nobody).await;
            self.result.invalid += 1;
            self.result.invalid_refused += usize::from(outcome == ToolOutcome::InvalidArguments);
            timed_out += usize::from(outcome == ToolOutcome::TimedOut);
        }
    }

    async fn troubled(&mut self, usual: &Usual<'_>) {
        for trouble in QUICK_TROUBLES {
            if self.is_over() {
                return;
            }
            self.try_out(trouble.name(), &usual.arguments, Upstreams::Trouble(trouble)).await;
            self.result.troubles += 1;
        }
        // A call to a silent upstream cannot end in time, so all it must not do is worse.
        let silent = Upstreams::Trouble(Trouble::Silent);
        let called = self.probe.call(&self.tool.tool, &usual.arguments, silent, Some(SILENCE)).await;
        self.result.troubles += 1;
        if is_bad(&called) && called.outcome() != ToolOutcome::TimedOut {
            let text = format!(
                "with {} it ends with {}: {}",
                Trouble::Silent.name(),
                called.outcome().as_str(),
                expectation::cut(&called.returned.content)
            );
            self.result.findings.push(Finding::new(Weight::Fault, Some(&self.tool.tool), text));
        }
    }

    async fn cancelled(&mut self, usual: &Usual<'_>, sends_requests: bool) {
        if sends_requests {
            self.probe.isolated.http.trouble_with(Trouble::Silent);
        }
        if !self.probe.isolated.cancel(&self.tool.tool, &usual.arguments).await {
            let text =
                "a call whose caller went away still ran 2 s later: look at context.cancelled in loops";
            self.result.findings.push(Finding::new(Weight::Fault, Some(&self.tool.tool), text));
        }
        self.result.cancelled += 1;
    }

    /// Whether the usual call still answers what it did.
    async fn same_as(&mut self, usual: &Usual<'_>, before: Option<String>) {
        let Some(before) = before else { return };
        let called = self.probe.call(&self.tool.tool, &usual.arguments, usual.upstreams(), None).await;
        if called.returned.content != before {
            let text = format!(
                "the same call answered {} before the abuse and {} after it: something is left of other calls",
                expectation::cut(&before),
                expectation::cut(&called.returned.content)
            );
            let mut finding = Finding::new(Weight::Fault, Some(&self.tool.tool), text);
            finding.command = Some(self.probe.command(&self.tool.tool, &usual.arguments));
            self.result.findings.push(finding);
        }
    }
}
