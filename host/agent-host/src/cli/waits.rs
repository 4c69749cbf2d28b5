//! `agent-host waits`: what runs wait for, and deciding it from beside the service. Whoever may read the
//! stores may do that: nobody's token is asked for. What is decided is decided by `command line`, who counts
//! as an administrator.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::terminal_text::shown;
use agent_core::words::{JobStatus, Principal, Verdict, WaitKind};
use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args, Subcommand};
use host_setup::output::{json_line, print};
use host_setup::program::install_tls;
use http_edge::wait_json;
use run_service::runs::moment;
use run_service::waits::{Change, JobWait, NotDecided, ProposedDecision, WaitPage, Waits};
use serde_json::{Value, json};

use super::tools::OPERATOR;
use super::{Exit, dev};
use crate::composition;
use crate::config::{ProcessEnv, Retention, Stores};

/// Most characters of an id, and of arguments.
const ID_CHARS: usize = 64;
const ARGUMENT_CHARS: usize = 2_000;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List what runs wait for: a user's, or what an administrator may decide, the next to expire first
    List(List),
    /// Show a wait: the call that would be made, its digest, who decides and until when
    Show {
        /// The id of the wait, as the list has it
        wait_id: String,
        /// Print the wait as one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Decide a wait, which has to be as it was shown
    ///
    /// The run goes on in a running service. Arguments are edited over HTTP, where they are held against the
    /// tool's schema.
    Decide(Decide),
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// The user's id, as tokens have it
    #[arg(long)]
    user: Option<String>,
    /// How many jobs at most
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Go on where the list before ended
    #[arg(long)]
    cursor: Option<String>,
    /// Print the list as one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("verdict").required(true)))]
pub(super) struct Decide {
    /// The id of the wait, as the list has it
    wait_id: String,
    /// The call is made as it was shown
    #[arg(long, group = "verdict")]
    approve: bool,
    /// The call is not made, and the model is told so
    #[arg(long, group = "verdict")]
    reject: bool,
    /// What a question or an event is answered: JSON, or else any text
    #[arg(long, group = "verdict", allow_hyphen_values = true)]
    answer: Option<String>,
    /// What the model is told besides
    #[arg(long, requires = "reject")]
    reason: Option<String>,
    /// The digest that waits show printed
    #[arg(long)]
    digest: String,
    /// Print what became of it as JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: Command) -> anyhow::Result<Exit> {
    install_tls();
    let (stores, retention) = (Stores::from_vars(&ProcessEnv)?, Retention::from_vars(&ProcessEnv)?);
    let opened = composition::open_existing_stores(&stores).await?;
    let queue = composition::open_queue(&stores, retention, &opened)?;
    let kept_in = composition::open_key_value(&stores, &opened)?;
    let (Some(queue), Some(runs)) = (queue, opened.runs) else {
        bail!(
            "there are no stores to look at: set DATABASE_URL, and REDIS_URL and MONGODB_URL where the service has them \
             ({})",
            dev::databases(&ProcessEnv)
        );
    };
    let mut waits = Waits::beside_the_service(queue.clone(), runs.store);
    if let Some(kept_in) = kept_in {
        waits = waits.keeping_approved_in(kept_in);
    }
    let work = async {
        match &command {
            Command::List(wanted) => list(&waits, wanted).await,
            Command::Show { wait_id, json } => show(&waits, wait_id, *json).await,
            Command::Decide(wanted) => decide(&waits, wanted).await,
        }
    };
    // A decision is an event of a journal, which the writer of that store commits.
    let text = tokio::select! {
        text = work => text,
        () = runs.writer.run() => bail!("the store of runs takes nothing any more"),
    };
    queue.close().await;
    print(&text?)?;
    Ok(Exit::Success)
}

/// On whose behalf this command decides.
fn operator() -> Principal {
    Principal { role: Some("admin".to_owned()), ..Principal::user(OPERATOR.by) }
}

async fn list(waits: &Waits, wanted: &List) -> anyhow::Result<String> {
    let (limit, cursor) = (usize::from(wanted.limit), wanted.cursor.as_deref());
    let page = match &wanted.user {
        Some(user) => waits.list(user, limit, cursor).await,
        None => waits.list_decidable(&operator(), limit, cursor).await,
    };
    let WaitPage { waits, next_cursor } = page.context("the waits cannot be listed")?;
    if wanted.json {
        let waits: Vec<_> = waits.iter().map(wait_json).collect();
        return Ok(json_line(&json!({ "waits": waits, "nextCursor": next_cursor })));
    }
    let mut text = String::new();
    if waits.is_empty() && next_cursor.is_none() {
        text.push_str("Nothing waits.\n");
    }
    for wait in &waits {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<38} {} until {}, of user {}",
            shown(&wait.id, ID_CHARS),
            shown(&wait.open.wait.shown.tool, ID_CHARS),
            moment(at(wait.open.wait.expires_at)),
            shown(wait.owner.user_id.as_deref().unwrap_or("-"), ID_CHARS),
        );
    }
    if let Some(cursor) = next_cursor {
        let _ = writeln!(text, "There are more: --cursor {cursor}");
    }
    Ok(text)
}

async fn find(waits: &Waits, id: &str) -> anyhow::Result<JobWait> {
    match waits.show_to_operator(id).await.context("the wait cannot be read")? {
        Some(wait) => Ok(wait),
        None => bail!(
            "there is no wait {id:?}: it never was, was shown anew under another id, or its run was forgotten"
        ),
    }
}

async fn show(waits: &Waits, id: &str, json: bool) -> anyhow::Result<String> {
    let wait = find(waits, id).await?;
    if json {
        return Ok(json_line(&wait_json(&wait)));
    }
    let of = &wait.open.wait;
    let mut text = format!(
        "wait {}, of job {} and user {}, run {}\nsince {}, until {}, then {}\ncalls {} of {}{}\nwith  {}\nhints {}\n",
        shown(&wait.id, ID_CHARS),
        shown(&wait.job_id, ID_CHARS),
        shown(wait.owner.user_id.as_deref().unwrap_or("-"), ID_CHARS),
        shown(&wait.run_id, ID_CHARS),
        moment(at(of.began_at)),
        moment(at(of.expires_at)),
        of.on_expiry.as_str(),
        shown(&of.shown.tool, ID_CHARS),
        shown(&of.shown.component, 2 * ID_CHARS),
        of.within
            .as_ref()
            .map(|within| format!(", for {}", shown(&within.tool, ID_CHARS)))
            .unwrap_or_default(),
        shown(&of.shown.arguments.to_string(), ARGUMENT_CHARS),
        serde_json::to_string(&of.shown.hints)?,
    );
    if let Some(child) = &of.child {
        let status = wait.child.map_or("not begun", JobStatus::as_str);
        let _ = writeln!(text, "waits for job {}, run {}, {status}", child.job_id, child.run_id);
    }
    if let Some(parent) = &wait.parent {
        let _ = writeln!(text, "run {} waits for this one: {}", parent.run_id, parent.wait);
    }
    add_last_approved(&mut text, &wait);
    for decision in &wait.open.decisions {
        let by = decision.by.as_deref().unwrap_or("its expiry");
        let _ = writeln!(
            text,
            "{} by {} at {}",
            decision.verdict.as_str(),
            shown(by, ID_CHARS),
            moment(at(decision.at))
        );
    }
    if let Some(schema) = &of.answer {
        let _ = writeln!(text, "answer schema {}", shown(&schema.to_string(), ARGUMENT_CHARS));
    }
    if wait.decided().is_none() {
        let digest = of.shown.digest();
        let (how, option) = match of.kind {
            WaitKind::Approval => (format!("approve, {} needed", of.deciders.count), "--approve"),
            WaitKind::Question | WaitKind::Event => ("answer".to_owned(), "--answer JSON"),
            WaitKind::Timer => ("go on without it".to_owned(), "--reject"),
            WaitKind::Child => return Ok(text),
        };
        let _ = writeln!(text, "To {how}: agent-host waits decide {id} {option} --digest {digest}");
    }
    Ok(text)
}

fn add_last_approved(text: &mut String, wait: &JobWait) {
    if let Some(last) = &wait.last_approved {
        let _ = writeln!(text, "last approved at {}, and now", moment(at(last.at)));
        for Change { path, before, now } in &last.changes {
            let of = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
            let change = format!("{path}: {} instead of {}", of(now), of(before));
            let _ = writeln!(text, "  {}", shown(&change, ARGUMENT_CHARS));
        }
        if last.changes.is_empty() {
            text.push_str("  the same\n");
        }
    }
}

async fn decide(waits: &Waits, wanted: &Decide) -> anyhow::Result<String> {
    let verdict = match &wanted.answer {
        Some(answer) => Verdict::Answer {
            answer: serde_json::from_str(answer).unwrap_or_else(|_text| answer.as_str().into()),
        },
        None if wanted.approve => Verdict::Approve,
        None => Verdict::Reject { reason: wanted.reason.clone() },
    };
    let proposed = ProposedDecision { by: operator(), shown: wanted.digest.clone(), verdict };
    let decided = match waits.decide(&wanted.wait_id, &proposed).await {
        Ok(decided) => decided,
        Err(NotDecided::Already(decision)) => {
            let by = decision.by.as_deref().unwrap_or("its expiry");
            bail!("{} has decided already: {}", shown(by, ID_CHARS), decision.verdict.as_str())
        }
        Err(NotDecided::Outdated(wait)) => bail!(
            "that is not the digest of what is to be decided: look at it again with agent-host waits show {}",
            shown(&wait.id, ID_CHARS)
        ),
        Err(error) => return Err(error).context("nothing was decided"),
    };
    if wanted.json {
        let done = json!({ "wait": wait_json(&decided.wait), "goesOn": decided.goes_on });
        return Ok(json_line(&done));
    }
    Ok(match decided.goes_on {
        true => "It is decided, and the run goes on.\n".to_owned(),
        false => "It is noted. Others have to decide as well before the run goes on.\n".to_owned(),
    })
}

fn at(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}
