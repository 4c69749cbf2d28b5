//! `agent-tool check`: whether a component keeps the contract, describes itself well, and does what it
//! declares.

use std::path::PathBuf;

use agent_core::words::ToolOutcome;
use clap::Args;
use host_setup::output::{json_text, plain, print};
use host_setup::program::Exit;
use serde_json::{Map, Value, json};
use tool_host::{Inspection, Need, PolicyFile, ToolListing};
use tool_kit::expectation;
use tool_kit::finding::{self, Finding, Weight};
use tool_kit::generate::Generator;
use tool_kit::lint::{Described, lint};
use tool_kit::promises::{ObservedCalls, Promises, unused};

use crate::inspect::tokens;
use crate::isolated::{ComponentFile, Grants, Isolated, Probe, Setup, Upstreams, granting};

/// How many arguments of each tool are made up, and how many of these calls are made twice.
const ARGUMENTS: usize = 25;
const TWICE: usize = 5;

/// What to check.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A component: a file, or the name of one in TOOLS_DIR
    #[arg(value_name = "FILE|NAME")]
    component: PathBuf,
    /// Grant it what this policy says. Without one it is granted all that it asks for, and nothing real
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Make other arguments
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let setup = Setup::new()?;
    let file = ComponentFile::find(&arguments.component, &setup.config.folder)?;
    let policy = arguments.policy.clone().map_or(PolicyFile::None, PolicyFile::At);
    let inspection = file.inspect(&policy);
    let mut findings = of_component(&inspection);
    let grants = || match &policy {
        PolicyFile::None => Grants::Made(granting((&file.name, &inspection.digest), inspection.wants, None)),
        named => Grants::Policy(named.clone()),
    };
    let loaded = Isolated::start(&setup, &file, grants()).await?;
    if let Some(refusal) = loaded.refusal() {
        let mut text = format!("it is refused: it {refusal}");
        if let Some(lines) = inspection.lines.as_ref().filter(|_| inspection.refusal.is_none()) {
            text.push_str(&format!("\nlines for the policy:\n{}", lines.trim_end()));
        }
        findings.push(Finding::new(Weight::Fault, None, text));
    }
    // Of its own, so that no answer is one that was kept.
    let again = Isolated::start(&setup, &file, grants()).await?;
    let mut check = Check {
        probe: Probe::new(&loaded, &file),
        again: &again,
        findings,
        seed: arguments.seed,
        lacks: false,
    };
    let imports: Vec<_> = inspection.imports.iter().map(|import| import.name.clone()).collect();
    let mut all = ObservedCalls::default();
    for tool in loaded.tools() {
        check.tool(&tool, &imports).await;
        let seen = check.probe.seen(&tool.tool);
        all.calls += seen.calls;
        all.requests.extend(seen.requests);
        all.reads += seen.reads;
        all.writes += seen.writes;
    }
    let (mut findings, lacks) = (check.findings, check.lacks);
    // Without a setting that it needs, a tool ends before it has used anything.
    if !lacks {
        findings.extend(unused(&imports, &all));
    }
    let text = if json {
        let report = json!({
            "component": file.name, "digest": inspection.digest, "seed": arguments.seed,
            "ok": !finding::has_fault(&findings), "calls": all.calls, "findings": findings,
        });
        json_text(&report)?
    } else {
        format!("{} ({} calls were made)\n{}", file.name, all.calls, plain(&finding::report(&findings)))
    };
    print(&text)?;
    Ok(if finding::has_fault(&findings) { Exit::Failure } else { Exit::Success })
}

/// What its bytes alone show.
fn of_component(inspection: &Inspection) -> Vec<Finding> {
    let mut findings = vec![];
    let mut note = |text: String| findings.push(Finding::new(Weight::Note, None, text));
    let named = |need: Need| -> Vec<&str> {
        let imports = inspection.imports.iter().filter(|import| import.need == need);
        imports.map(|import| import.name.as_str()).collect()
    };
    let granted = named(Need::Grant);
    if !granted.is_empty() {
        note(format!("it needs a grant for {}: `agent-tool inspect` prints the lines", granted.join(", ")));
    }
    let closed = named(Need::Closed);
    if closed.iter().any(|import| import.starts_with("wasi:filesystem/")) {
        note(format!(
            "it imports {}: there are no files, so opening one fails; what is to outlive a call goes to agent:tool/key-value, and \
             what it reads belongs into the component",
            closed.join(", ")
        ));
    }
    findings
}

struct Check<'a> {
    probe: Probe<'a>,
    again: &'a Isolated,
    findings: Vec<Finding>,
    seed: u64,
    /// Whether it asked for settings or secrets that nobody gave it.
    lacks: bool,
}

impl Check<'_> {
    async fn tool(&mut self, tool: &ToolListing, imports: &[String]) {
        let name = tool.tool.as_str();
        self.findings.extend(lint(&Described {
            name,
            description: &tool.description,
            input_schema: &tool.input_schema,
            has_output_schema: tool.output_schema.is_some(),
            prompt_tokens: tokens(tool),
        }));
        let odd = |text: &String| Finding::new(Weight::Warning, Some(name), text.clone());
        self.findings.extend(tool.oddities.iter().map(odd));
        let promises = Promises::of(&tool.hints);
        self.findings.extend(promises.contradictions(name, imports));
        self.examples(tool).await;
        let answered = self.generated(tool).await;
        if promises.pure {
            self.twice(name, &answered).await;
        }
        if promises.idempotent && self.probe.seen(name).writes > 0 {
            self.repeated(name, &answered).await;
        }
        self.findings.extend(promises.broken(name, &self.probe.seen(name)));
        self.asked_for(name);
    }

    /// Calls it with made-up arguments. Returns those that it answered, and what.
    async fn generated(&mut self, tool: &ToolListing) -> Vec<(Map<String, Value>, String)> {
        let mut generator = Generator::new(&tool.input_schema, self.seed);
        let (mut answered, mut refused) = (vec![], 0);
        for _ in 0..ARGUMENTS {
            let arguments = generator.valid();
            let tried = ("valid arguments", &arguments);
            let (called, found) = self.probe.try_out(&tool.tool, tried, Upstreams::Nobody).await;
            let has_failed = found.is_some();
            self.findings.extend(found);
            match called.outcome() {
                ToolOutcome::Ok => answered.push((arguments, called.returned.content)),
                ToolOutcome::InvalidArguments => refused += 1,
                // Every further one takes as long.
                ToolOutcome::TimedOut if has_failed => break,
                _ => {}
            }
        }
        if refused == ARGUMENTS {
            let text = "no arguments could be made up that its schema allows, so it was not called: add \"examples\" to the schema";
            self.findings.push(Finding::new(Weight::Warning, Some(&tool.tool), text));
        }
        answered
    }

    /// Equal calls of a tool that is pure, made by another host that kept no answers.
    async fn twice(&mut self, name: &str, answered: &[(Map<String, Value>, String)]) {
        for (arguments, first) in answered.iter().take(TWICE) {
            let second = self.again.call(name, arguments, None).await;
            if second.returned.content != *first {
                let text = format!(
                    "it says that it is pure, and two equal calls answered {} and {}: take the hint away",
                    expectation::cut(first),
                    expectation::cut(&second.returned.content)
                );
                let mut finding = Finding::new(Weight::Fault, Some(name), text);
                finding.command = Some(self.probe.command(name, arguments));
                self.findings.push(finding);
                return;
            }
        }
    }

    /// Equal calls of a tool that is idempotent: the second changes nothing more of what it keeps.
    async fn repeated(&mut self, name: &str, answered: &[(Map<String, Value>, String)]) {
        for (arguments, _) in answered.iter().take(TWICE) {
            let mut kept = vec![];
            for _ in 0..2 {
                self.probe.call(name, arguments, Upstreams::Nobody, None).await;
                kept.push(self.probe.isolated.values.kept());
            }
            if kept.first() != kept.last() {
                let text = "it says that it is idempotent, and the same call made again changed what it keeps: take the hint away, \
                            or keep under a key that is made of the arguments or of context.call-id";
                let mut finding = Finding::new(Weight::Warning, Some(name), text);
                finding.command = Some(self.probe.command(name, arguments));
                self.findings.push(finding);
                return;
            }
        }
    }

    /// The examples of its schema, which a model will follow.
    async fn examples(&mut self, tool: &ToolListing) {
        for (place, arguments) in examples(&tool.input_schema, self.seed) {
            let what = format!("the example {place}");
            let (called, found) =
                self.probe.try_out(&tool.tool, (&what, &arguments), Upstreams::Nobody).await;
            self.findings.extend(found);
            let by_host = called.outcome() == ToolOutcome::InvalidArguments;
            if by_host || called.code() == Some("invalid-arguments") {
                let text = format!(
                    "the example {place} of its schema is refused: {}; a model follows examples better than rules, so mend it",
                    expectation::cut(&called.returned.content)
                );
                // Beside an example of one argument, the others were made up.
                let weight =
                    if by_host || place == "of all arguments" { Weight::Fault } else { Weight::Warning };
                let mut finding = Finding::new(weight, Some(&tool.tool), text);
                finding.command = Some(self.probe.command(&tool.tool, &arguments));
                self.findings.push(finding);
            }
        }
    }

    /// Settings and secrets that it asked for and was not given.
    fn asked_for(&mut self, name: &str) {
        let Some(learned) = self.probe.isolated.learned(name) else { return };
        for line in learned.lines.lines().filter_map(|line| line.strip_prefix("# ")) {
            if line.starts_with("It asked") {
                self.lacks = true;
                self.findings.push(Finding::new(
                    Weight::Note,
                    Some(name),
                    format!("i{}", line.trim_start_matches('I')),
                ));
            }
        }
    }
}

/// The examples of a schema as whole arguments, with where they stand. Each is made when it is asked for.
fn examples(schema: &Value, seed: u64) -> impl Iterator<Item = (String, Map<String, Value>)> {
    let whole = listed(schema)
        .filter_map(|example| Some(("of all arguments".to_owned(), example.as_object()?.clone())));
    let others = Generator::new(schema, seed).valid();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let of_one = properties.flat_map(|(name, property)| listed(property).map(move |example| (name, example)));
    whole.chain(of_one.map(move |(name, example)| {
        let mut arguments = others.clone();
        arguments.insert(name.clone(), example.clone());
        (format!("of {name}"), arguments)
    }))
}

/// The examples that stand in a schema.
fn listed(schema: &Value) -> impl Iterator<Item = &Value> {
    schema.get("examples").and_then(Value::as_array).into_iter().flatten()
}
