//! What the token of a job's submitter said beside the user's id, the conversation that the job's run is part
//! of, the id of its run where that was known before, the wait of another job that ends with it, and the
//! options of its run, in the job's own options: BullMQ keeps options that it does not know, and the data of
//! a job stay `{query, userId}` for Node peers. Jobs of Node producers have none.

use agent_core::words::{JobData, JobOptions, is_conversation_id};
use serde::Serialize;
use serde_json::{Map, Value};

/// The name of the option.
const OPTION: &str = "agentHostSubmitter";

/// What [`OPTION`] holds. What the token did not say is left out.
#[derive(Serialize)]
pub(super) struct Submitter<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    #[serde(rename = "conversationId", skip_serializing_if = "Option::is_none")]
    conversation_id: Option<&'a str>,
    #[serde(rename = "runId", skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    /// JSON within a text: BullMQ's scripts read options and write them again, which makes an empty list an
    /// object.
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<String>,
}

/// What the options of a job hold that is added; nothing when the token said nothing.
pub(super) fn of(job: &JobData) -> Option<Submitter<'_>> {
    let (tier, role) = (job.tier.as_deref(), job.role.as_deref());
    let conversation_id = job.conversation_id.as_deref();
    let run_id = job.known_run();
    let (parent, options) = (job.parent.as_deref(), job.options.to_text());
    let says_something = [tier, role, conversation_id, run_id.as_deref(), parent, options.as_deref()]
        .iter()
        .any(Option::is_some);
    says_something.then_some(Submitter { tier, role, conversation_id, run_id, parent, options })
}

/// The run of a job with these options, if it was known when the job was added.
pub(super) fn run_of(options: Option<&str>) -> Option<String> {
    said(options).get("runId").and_then(Value::as_str).filter(|id| id.starts_with("run_")).map(str::to_owned)
}

/// The wait of another job that ends with one of these options.
pub(super) fn parent_of(options: Option<&str>) -> Option<String> {
    said(options).get("parent").and_then(Value::as_str).map(str::to_owned)
}

fn said(options: Option<&str>) -> Value {
    let options = options.and_then(|options| serde_json::from_str::<Map<String, Value>>(options).ok());
    options.and_then(|mut options| options.remove(OPTION)).unwrap_or_default()
}

/// Notes in `job` what its `options` say, as they are stored. What cannot be read is as if it had not been
/// said, but for the options of the run: without them it would be another one.
pub(super) fn read(options: Option<&str>, job: &mut JobData) -> Result<(), String> {
    let said = said(options);
    let text = |name: &str| said.get(name).and_then(Value::as_str).map(str::to_owned);
    (job.tier, job.role) = (text("tier"), text("role"));
    job.parent = text("parent");
    // Whoever else writes to the queue may have written any.
    job.conversation_id = text("conversationId").filter(|id| is_conversation_id(id));
    job.options = JobOptions::from_text(text("options").as_deref())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tier and role of a job with these options.
    fn token_of(options: &str) -> (Option<String>, Option<String>) {
        let mut job = JobData::new("q", "u1");
        read(Some(options), &mut job).unwrap();
        (job.tier, job.role)
    }

    #[test]
    fn what_the_token_said_is_read_from_the_options() {
        let options = r#"{"attempts":3,"agentHostSubmitter":{"tier":"premium","role":"admin"}}"#;
        assert_eq!(token_of(options), (Some("premium".into()), Some("admin".into())));
        assert_eq!(token_of(r#"{"agentHostSubmitter":{"role":""}}"#), (None, Some(String::new())));
    }

    #[test]
    fn the_conversation_of_a_job_is_read_from_the_options() {
        let mut job = JobData::new("q", "u1");
        job.conversation_id = Some("trip".into());
        let options = serde_json::json!({ OPTION: of(&job) }).to_string();
        assert_eq!(options, r#"{"agentHostSubmitter":{"conversationId":"trip"}}"#);
        let mut read_back = JobData::new("q", "u1");
        read(Some(&options), &mut read_back).unwrap();
        assert_eq!(read_back, job);
        read(Some(&options.replace("trip", "../x")), &mut read_back).unwrap();
        assert_eq!(read_back, JobData::new("q", "u1"));
    }

    #[test]
    fn options_of_a_run_that_cannot_be_read_fail_the_job() {
        let mut job = JobData::new("q", "u1");
        job.options.options.tools = Some(vec![]);
        let options = serde_json::json!({ OPTION: of(&job) }).to_string();
        assert_eq!(options, r#"{"agentHostSubmitter":{"options":"{\"tools\":[]}"}}"#);
        let mut read_back = JobData::new("q", "u1");
        read(Some(&options), &mut read_back).unwrap();
        assert_eq!(read_back, job);
        assert!(read(Some(&options.replace("[]", "1")), &mut read_back).is_err());
    }

    #[test]
    fn options_that_say_nothing_make_a_caller_without_tier_and_role() {
        for options in [
            "",
            "[]",
            "{}",
            r#"{"tier":"premium"}"#,
            r#"{"agentHostSubmitter":null}"#,
            r#"{"agentHostSubmitter":"premium"}"#,
            r#"{"agentHostSubmitter":["premium"]}"#,
            r#"{"agentHostSubmitter":{"tier":5,"role":["admin"]}}"#,
        ] {
            assert_eq!(token_of(options), (None, None), "{options}");
        }
        let mut job = JobData::new("q", "u1");
        read(None, &mut job).unwrap();
        assert_eq!(job, JobData::new("q", "u1"));
        assert!(of(&job).is_none());
    }
}
