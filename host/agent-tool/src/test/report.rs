//! What is tested, and what came of it, as text and as JSON.

use std::path::PathBuf;

use host_setup::output::plain;
use serde::Serialize;
use serde_json::json;
use tool_host::{PolicyFile, ToolListing};
use tool_kit::cases::CaseFile;
use tool_kit::cost::{self, Budget, Costs, Row};
use tool_kit::finding::{self, Finding, Weight};
use tool_kit::people::AnswerLine;

use crate::inspect::tokens;
use crate::isolated::{ComponentFile, Setup};

pub(super) struct Tested {
    pub(super) setup: Setup,
    pub(super) file: ComponentFile,
    pub(super) cases: CaseFile,
    /// The file of the cases, for the report.
    pub(super) cases_path: Option<PathBuf>,
    pub(super) policy: Option<PolicyFile>,
    /// What questions are answered with that no case answers.
    pub(super) answers: Vec<AnswerLine>,
    pub(super) seed: u64,
}

/// What came of a test.
pub(super) struct Report {
    component: String,
    digest: String,
    seed: u64,
    /// Why nothing was called.
    pub(super) refusal: Option<String>,
    pub(super) tools: Vec<ToolListing>,
    pub(super) cases: Vec<CaseResult>,
    pub(super) abuse: Vec<AbuseResult>,
    pub(super) costs: Costs,
    beyond: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CaseResult {
    pub(super) name: String,
    /// File and line.
    pub(super) place: String,
    /// None when it passed.
    pub(super) problems: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
}

/// What a tool was put through, and what it did not bear.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AbuseResult {
    pub(super) tool: String,
    /// Calls with valid arguments, and those of them that the host refused all the same.
    pub(super) valid: usize,
    pub(super) valid_refused: usize,
    /// Calls with invalid arguments, and those that the host refused by the schema.
    pub(super) invalid: usize,
    pub(super) invalid_refused: usize,
    /// Calls with upstreams in trouble, and calls that were cancelled.
    pub(super) troubles: usize,
    pub(super) cancelled: usize,
    /// Whether some of it was left away, because it took too long.
    pub(super) is_cut: bool,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(tested: &Tested) -> Self {
        let digest = tested.file.inspect(&PolicyFile::None).digest;
        Self {
            component: tested.file.name.clone(),
            digest,
            seed: tested.seed,
            refusal: None,
            tools: vec![],
            cases: vec![],
            abuse: vec![],
            costs: Costs::default(),
            beyond: vec![],
        }
    }

    pub(super) fn hold_against(&mut self, budget: &Budget) {
        self.beyond = self.rows().iter().flat_map(|row| row.beyond(budget)).collect();
    }

    fn rows(&self) -> Vec<Row> {
        self.costs.rows(self.tools.iter().map(|tool| (tool.tool.as_str(), tokens(tool))))
    }

    pub(super) fn is_ok(&self) -> bool {
        self.refusal.is_none()
            && self.beyond.is_empty()
            && self.cases.iter().all(|case| case.problems.is_empty())
            && !self.abuse.iter().any(|abuse| finding::has_fault(&abuse.findings))
    }

    pub(super) fn to_json(&self) -> anyhow::Result<String> {
        let report = json!({
            "component": self.component, "digest": self.digest, "seed": self.seed, "ok": self.is_ok(),
            "refusal": self.refusal, "cases": self.cases, "abuse": self.abuse, "costs": self.rows(),
            "beyondBudget": self.beyond,
        });
        Ok(serde_json::to_string_pretty(&report)? + "\n")
    }

    pub(super) fn to_text(&self) -> String {
        if let Some(refusal) = &self.refusal {
            return format!("{} is refused: it {}\n", self.component, plain(refusal));
        }
        let mut text = String::new();
        for case in &self.cases {
            let name = plain(&case.name);
            if case.problems.is_empty() {
                text.push_str(&format!("ok    {name}\n"));
                continue;
            }
            text.push_str(&format!("FAIL  {name}  ({})\n", case.place));
            for problem in &case.problems {
                text.push_str(&format!("        {}\n", plain(problem).replace('\n', "\n        ")));
            }
            if let Some(command) = &case.command {
                text.push_str(&format!("        {command}\n"));
            }
        }
        if self.cases.is_empty() {
            text.push_str(
                "no cases: write them into cases.toml beside the component (agent-host docs tools/testing)\n",
            );
        }
        for abuse in &self.abuse {
            text.push_str(&abuse.to_text());
        }
        text.push('\n');
        text.push_str(&cost::table(&self.rows()));
        for beyond in &self.beyond {
            text.push_str(&format!("beyond the budget: {beyond}\n"));
        }
        text + "\n" + &self.summary()
    }

    fn summary(&self) -> String {
        let failed = self.cases.iter().filter(|case| !case.problems.is_empty()).count();
        let faults = self.abuse.iter().flat_map(|abuse| &abuse.findings);
        let faults = faults.filter(|finding| finding.weight == Weight::Fault).count();
        let verdict = if self.is_ok() { "passed" } else { "FAILED" };
        format!(
            "{verdict}: {} of {} cases failed, {faults} faults under abuse, {} beyond a budget (seed {})\n",
            failed,
            self.cases.len(),
            self.beyond.len(),
            self.seed
        )
    }
}

impl AbuseResult {
    fn to_text(&self) -> String {
        let Self {
            tool,
            valid,
            valid_refused,
            invalid,
            invalid_refused,
            troubles,
            cancelled,
            is_cut,
            findings,
        } = self;
        let mark = if finding::has_fault(findings) { "FAIL" } else { "ok  " };
        let mut parts = vec![format!("{valid} calls with valid arguments")];
        if *valid_refused > 0 {
            parts
                .push(format!("{valid_refused} of them not valid after all: add \"examples\" to the schema"));
        }
        parts.push(format!("{invalid} with invalid ones ({invalid_refused} refused by the schema)"));
        if *troubles > 0 {
            parts.push(format!("{troubles} with upstreams in trouble"));
        }
        parts.push(format!("{cancelled} cancelled"));
        if *is_cut {
            parts.push("the rest left away: it took too long".to_owned());
        }
        let mut text = format!("{mark}  {tool} under abuse: {}\n", parts.join(", "));
        for found in findings {
            let found_text = plain(&found.text).replace('\n', "\n        ");
            text.push_str(&format!("        {found_text}\n"));
            if let Some(command) = &found.command {
                text.push_str(&format!("        {command}\n"));
            }
        }
        text
    }
}
