//! A kept response as it stands. What has become of one in the background is read from its job by whoever
//! asks for the response, who also keeps its end: one that nobody asks for costs nothing more.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::words::{AgentResult, Job, JobStatus, Message, Turn, is_conversation_id};
use run_service::conversations::{appended, is_kept, said};
use run_service::jobs::ERROR_NOT_KEPT;
use serde_json::{Value, json};

use super::super::head::now_ms;
use super::super::run::conversation_state::{OWN_NAME, PREVIOUS, Place};
use super::super::run::kept::MOST_BYTES;
use super::response::Frame;
use http_edge::VariantB;
use http_edge::answer;
use http_edge::variant_b::auth::Caller;
use http_edge::variant_b::conversations::unavailable;
use http_edge::variant_b::error::{Error, Problem};

/// What the text of every response in the background has in it, so that others are not parsed.
const MARK: &str = "\"background\":true";

/// What becomes of a response whose job neither the queue nor the store of runs knows.
const FORGOTTEN: &str = "What became of it is not kept any more.";

/// The turn of a response that has not ended: what its client says.
pub(crate) fn pending_turn(id: &str, own: &[Message], input: &str) -> Turn {
    let input = (!input.is_empty()).then(|| Message::User { content: input.into() });
    Turn { id: id.to_owned(), at: now_ms(), ..said(own, input.as_slice()) }
}

/// A kept response as it stands.
pub(crate) struct CurrentResponse {
    /// What was said until it, and in it.
    pub(crate) turns: Vec<Turn>,
    /// What its client is shown, as JSON.
    pub(crate) shown: String,
    pub(crate) is_background: bool,
    /// Whether its job has not ended.
    pub(crate) is_open: bool,
}

/// A kept response of that user, as it stands now.
pub(crate) async fn current(
    variant: &VariantB,
    user_id: &str,
    id: &str,
) -> Result<Option<CurrentResponse>, Error> {
    let kept = variant.conversations.response(user_id, id).await.map_err(unavailable)?;
    let Some((turns, text)) = kept.and_then(|kept| Some((kept.turns, kept.shown?))) else {
        return of_job_alone(variant, user_id, id).await;
    };
    let shown = if text.contains(MARK) { parsed(&text) } else { Value::Null };
    let is_background = shown["background"] == true;
    // A job that failed may have been tried again since: its turn has no run as yet.
    let has_failed = shown["status"] == "failed" && turns.last().is_some_and(|turn| turn.run_id.is_empty());
    if !is_background || !(has_failed || shown["status"] == "queued") {
        return Ok(Some(CurrentResponse { turns, shown: text, is_background, is_open: false }));
    }
    let job = variant.jobs.read(user_id, job_of(id), Duration::ZERO).await?;
    let frame = Frame::of_kept(shown);
    // Of a failure that the queue forgot, what was kept says more.
    let is_forgotten = |job: &Job| has_failed && job.error.as_deref() == Some(ERROR_NOT_KEPT);
    let Some(job) = job.filter(|job| !is_forgotten(job)) else {
        let shown = if has_failed { text } else { frame.failed(FORGOTTEN).to_string() };
        return Ok(Some(CurrentResponse { turns, shown, is_background, is_open: false }));
    };
    if !job.status.has_ended() {
        let is_queued = matches!(job.status, JobStatus::Waiting | JobStatus::Delayed);
        let shown = if is_queued { frame.queued() } else { frame.in_progress() };
        return Ok(Some(CurrentResponse { turns, shown: shown.to_string(), is_background, is_open: true }));
    }
    let (turns, ended) = ended(turns, &frame, &job);
    let shown = ended.to_string();
    let shown = if shown == text { text } else { keep(variant, user_id, id, &turns, ended).await };
    Ok(Some(CurrentResponse { turns, shown, is_background, is_open: false }))
}

/// A response whose job goes on although newer ones have taken its place among those that are kept: without
/// what it repeats of its request, so that it can be looked for and cancelled.
async fn of_job_alone(variant: &VariantB, user_id: &str, id: &str) -> Result<Option<CurrentResponse>, Error> {
    let job = variant.jobs.read(user_id, job_of(id), Duration::ZERO).await?;
    let Some(job) = job.filter(|job| !job.status.has_ended()) else { return Ok(None) };
    let created_at = seconds(job.created_at);
    let shown = json!({ "id": id, "created_at": created_at, "background": true, "store": false });
    let shown = Frame::of_kept(shown).in_progress().to_string();
    Ok(Some(CurrentResponse { turns: vec![], shown, is_background: true, is_open: true }))
}

/// Why there is no response of that id. Of one whose job is there it says where the result is.
pub(crate) async fn unknown(variant: &VariantB, user_id: &str, id: &str) -> Error {
    match variant.jobs.read(user_id, job_of(id), Duration::ZERO).await {
        Ok(Some(job)) => Problem::response_of_job(id, &job.id).into(),
        Ok(None) => Problem::unknown_response(id).into(),
        Err(error) => error.into(),
    }
}

/// What a response has come to whose job has ended, with its turn, if it is one.
fn ended(mut turns: Vec<Turn>, frame: &Frame, job: &Job) -> (Vec<Turn>, Value) {
    let pending = turns.pop();
    let result =
        job.result.as_ref().and_then(|result| serde_json::from_str::<AgentResult>(result.get()).ok());
    let shown = match (job.status, &result) {
        (JobStatus::Completed, Some(result)) => frame.of(result),
        (JobStatus::Cancelled, _) => frame.cancelled(),
        // A worker of another program may have kept something else.
        _ => frame.failed(job.error.as_deref().unwrap_or(answer::INTERNAL_ERROR)),
    };
    if let Some(pending) = pending {
        // What the client said stays, whatever the run came to: it is what a later response goes on from.
        turns = appended(
            turns,
            match result.filter(|result| is_kept(result.stop_reason)) {
                Some(result) => whole_turn(pending, result),
                None => pending,
            },
        );
    }
    (turns, at_the_end_of(job, shown))
}

/// The turn of a response that has ended: the run's transcript begins with what its client said last.
fn whole_turn(mut pending: Turn, result: AgentResult) -> Turn {
    if pending.messages.last().is_some_and(|last| result.messages.first() == Some(last)) {
        pending.messages.pop();
    }
    let messages = said(&pending.messages, &result.messages).messages;
    Turn { run_id: result.id, messages, ..pending }
}

/// When it was completed is when its job was, whenever that is asked for.
fn at_the_end_of(job: &Job, mut shown: Value) -> Value {
    if !shown["completed_at"].is_null()
        && let Some(finished) = job.finished_at
    {
        shown["completed_at"] = seconds(finished).into();
    }
    shown
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Keeps how a response ended, and gives what is shown of it. One that is too large is read from its job for
/// as long as there is one, and so is one whose store fails.
async fn keep(variant: &VariantB, user_id: &str, id: &str, turns: &[Turn], mut shown: Value) -> String {
    let text = shown.to_string();
    if text.len() > MOST_BYTES {
        shown["store"] = false.into();
        return shown.to_string();
    }
    if let Err(error) = variant.conversations.keep_end_of_response(user_id, id, turns, &text).await {
        tracing::warn!(%error, "how a response in the background ended could not be kept");
    }
    text
}

/// What was said before a response of that place.
pub(crate) async fn turns_before(
    place: &Place,
    variant: &VariantB,
    caller: &Caller,
) -> Result<Vec<Turn>, Error> {
    if let Some(id) = &place.conversation {
        let kept = variant.conversations.read(caller.id(), id).await.map_err(unavailable)?;
        let turns = kept.map(|kept| kept.turns).unwrap_or_default();
        // Clients name conversations as they like, but for those that the service has named.
        if turns.is_empty() && id.starts_with(OWN_NAME) {
            return Err(Problem::unknown_conversation_of_response(id).into());
        }
        return Ok(turns);
    }
    let Some(id) = &place.previous else { return Ok(vec![]) };
    if let Some(last) = place.remembered() {
        return Ok(last.turns.clone());
    }
    if !is_conversation_id(id) {
        return Err(Problem::unknown_previous_response(id).into());
    }
    let kept = current(variant, caller.id(), id).await?;
    let kept = kept.ok_or_else(|| Problem::unknown_previous_response(id))?;
    if kept.is_open {
        let why = "that response is still queued or in progress: wait until it has ended.";
        return Err(Problem::invalid(PREVIOUS.name, why).into());
    }
    Ok(kept.turns)
}

/// What the id of a response has before that of its job.
pub(crate) const PREFIX: &str = "resp_";

/// The job of a response in the background.
pub(crate) fn job_of(id: &str) -> &str {
    id.strip_prefix(PREFIX).unwrap_or(id)
}

/// A response as it was kept.
pub(crate) fn parsed(shown: &str) -> Value {
    serde_json::from_str(shown).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use agent_core::testing::{reply, result, user};
    use agent_core::words::StopReason;
    use serde_json::value::to_raw_value;

    use super::*;

    fn job(status: JobStatus, result: Option<&AgentResult>) -> Job {
        Job {
            result: result.map(|result| to_raw_value(result).unwrap()),
            error: Some("it went wrong".into()),
            finished_at: Some(UNIX_EPOCH + Duration::from_secs(7)),
            ..agent_core::testing::job("1", status)
        }
    }

    #[test]
    fn the_end_of_a_job_is_that_of_its_response_and_its_turn_is_whole() {
        let reply = reply("4");
        let result = |stop| result(vec![user("2+2"), reply.clone()], stop);
        let whole = [user("before"), user("2+2"), reply.clone()];
        for (status, stop, shown, messages) in [
            (JobStatus::Completed, Some(StopReason::Completed), "completed", &whole[..]),
            (JobStatus::Completed, Some(StopReason::MaxTokens), "incomplete", &whole),
            (JobStatus::Completed, Some(StopReason::ContentFilter), "incomplete", &whole[..2]),
            (JobStatus::Completed, None, "failed", &whole[..2]),
            (JobStatus::Failed, None, "failed", &whole[..2]),
            (JobStatus::Cancelled, None, "cancelled", &whole[..2]),
        ] {
            let frame =
                Frame::of_kept(json!({ "id": "resp_1", "background": true, "metadata": { "a": "b" } }));
            let earlier = Turn {
                id: "0".into(),
                run_id: "run_0".into(),
                at: 1,
                messages: vec![user("hi")],
                ..Turn::default()
            };
            let turns = vec![earlier.clone(), pending_turn("resp_1", &[user("before")], "2+2")];
            let job = job(status, stop.map(result).as_ref());
            let (turns, response) = ended(turns, &frame, &job);
            let kept = turns.get(1).map(|turn| turn.messages.as_slice()).unwrap_or_default();
            assert_eq!((turns.first(), kept), (Some(&earlier), messages), "{status:?} {stop:?}");
            assert_eq!(response["status"], shown);
            assert_eq!((&response["background"], &response["metadata"]["a"]), (&json!(true), &json!("b")));
            let completed = if shown == "completed" { json!(7) } else { Value::Null };
            assert_eq!(response["completed_at"], completed);
            let failed = if shown == "failed" { json!("it went wrong") } else { Value::Null };
            assert_eq!(response.pointer("/error/message").unwrap_or(&Value::Null), &failed);
        }
    }

    #[test]
    fn replies_that_were_corrected_are_no_part_of_the_turn() {
        let transcript = vec![user("2+2"), reply("It is 4."), user("not JSON"), reply("4")];
        let result = result(transcript, StopReason::Completed);
        let pending = pending_turn("resp_1", &[user("before")], "2+2");
        let (turns, _) = ended(
            vec![pending],
            &Frame::of_kept(json!({ "id": "resp_1" })),
            &job(JobStatus::Completed, Some(&result)),
        );
        assert_eq!(turns[0].messages, [user("before"), user("2+2"), reply("4")]);
        assert_eq!((turns[0].asked, turns[0].run_id.as_str()), (Some(2), "run_1"));
    }
}
