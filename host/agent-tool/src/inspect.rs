//! `agent-tool inspect`: what a component is, before it is loaded and after, also when the host refuses it.

use std::fmt::Write as _;
use std::path::PathBuf;

use agent_core::terminal_text::shown_json;
use agent_core::words::prompt_tokens;
use clap::Args;
use host_setup::output::{describe_tool, json_text, plain, print};
use host_setup::program::Exit;
use serde_json::{Value, json};
use tool_host::{ComponentKind, Inspection, Need, PolicyFile, ToolListing};

use crate::isolated::{ComponentFile, Grants, Isolated, Setup, granting, policy_file};

/// What to look at.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A component: a file, or the name of one in TOOLS_DIR
    #[arg(value_name = "FILE|NAME")]
    component: PathBuf,
    /// The policy that it is held against, in place of TOOLS_POLICY
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// A component and what came of loading it.
struct Looked {
    file: ComponentFile,
    inspection: Inspection,
    /// Why a service would not have it.
    refusal: Option<String>,
    /// Those that it has, or would have if it were granted what it wants.
    tools: Vec<ToolListing>,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let setup = Setup::new()?;
    let file = ComponentFile::find(&arguments.component, &setup.config.folder)?;
    let policy = policy_file(&setup, arguments.policy.as_ref());
    let looked = look(&setup, file, policy).await?;
    let text = if json { json_text(&looked.to_json())? } else { looked.to_text() };
    print(&text)?;
    Ok(if looked.refusal.is_none() { Exit::Success } else { Exit::Failure })
}

async fn look(setup: &Setup, file: ComponentFile, policy: PolicyFile) -> anyhow::Result<Looked> {
    let inspection = file.inspect(&policy);
    let loaded = Isolated::start(setup, &file, Grants::Policy(policy)).await?;
    let (refusal, mut tools) = (loaded.refusal(), loaded.tools());
    if refusal.is_some() && inspection.refusal.is_none() {
        // What it would be with everything that it wants: nothing is called.
        let digest = inspection.digest.as_str();
        let granted = granting((&file.name, digest), inspection.wants, None);
        tools = Isolated::start(setup, &file, Grants::Made(granted)).await?.tools();
    }
    Ok(Looked { file, inspection, refusal, tools })
}

impl Looked {
    fn to_text(&self) -> String {
        let Self { file, inspection, refusal, tools } = self;
        let mut text = format!("{}\n", plain(&file.name));
        let mut line = |name: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {name:<11}{}", plain(value).replace('\n', "\n             "));
        };
        line("file", &file.path.display().to_string());
        line("size", &format!("{} bytes", file.bytes.len()));
        line("digest", &inspection.digest);
        line("kind", &kind(inspection));
        line("signature", &signature(file, inspection));
        for (at, import) in inspection.imports.iter().enumerate() {
            line(if at == 0 { "imports" } else { "" }, &format!("{}  {}", import.name, need(import.need)));
        }
        if inspection.imports.is_empty() {
            line("imports", "nothing");
        }
        if let Some(refusal) = refusal {
            line("refused", &format!("it {refusal}"));
        }
        if let Some(lines) = inspection.lines.as_ref().filter(|_| refusal.is_some()) {
            line(
                "to grant",
                &format!("put these lines into the policy (TOOLS_POLICY):\n{}", lines.trim_end()),
            );
        }
        for tool in tools {
            text.push('\n');
            text.push_str(&describe_tool(tool));
            if let Some(schema) = &tool.output_schema {
                let _ = writeln!(text, "  answers    {}", shown_json(&schema.to_string()));
            }
            let _ = writeln!(text, "  prompt     {} tokens in every call of the model", tokens(tool));
            for oddity in &tool.oddities {
                let _ = writeln!(text, "  odd        {}", plain(oddity));
            }
        }
        text
    }

    fn to_json(&self) -> Value {
        let Self { file, inspection, refusal, tools } = self;
        let tools: Vec<_> = tools
            .iter()
            .map(|tool| {
                let mut listed = json!(tool);
                if let Value::Object(members) = &mut listed {
                    members.insert("promptTokens".to_owned(), tokens(tool).into());
                }
                listed
            })
            .collect();
        let imports: Vec<_> = inspection
            .imports
            .iter()
            .map(|import| json!({ "name": import.name, "needs": need(import.need) }))
            .collect();
        json!({
            "component": file.name,
            "file": file.path.display().to_string(),
            "bytes": file.bytes.len(),
            "digest": inspection.digest,
            "kind": kind(inspection),
            "signature": signature(file, inspection),
            "imports": imports,
            "policyLines": inspection.lines,
            "refusal": refusal,
            "tools": tools,
        })
    }
}

/// What a tool adds to every call of the model.
pub(crate) fn tokens(tool: &ToolListing) -> u64 {
    let bytes = tool.tool.len() + tool.description.len() + tool.input_schema.to_string().len();
    prompt_tokens(bytes as u64)
}

fn kind(inspection: &Inspection) -> String {
    match &inspection.kind {
        Some(ComponentKind::Contract(version)) => format!("agent:tool@{version}"),
        Some(ComponentKind::Typed) => "typed: its functions are its tools".to_owned(),
        None => "exports no tool".to_owned(),
    }
}

fn signature(file: &ComponentFile, inspection: &Inspection) -> String {
    match (&file.signature, &inspection.signer) {
        (Some(_), Some(Ok(signer))) => format!("by {signer}, which the policy trusts"),
        (Some(_), Some(Err(problem))) => format!("{}.wasm.sig: {problem}", file.name),
        _ => "none".to_owned(),
    }
}

fn need(need: Need) -> &'static str {
    match need {
        Need::Nothing => "granted by default",
        Need::Closed => "granted by default, and closed: nothing is behind it",
        Need::Grant => "needs a grant",
        Need::Unknown => "no host of this version has it, unless it has types only",
    }
}
