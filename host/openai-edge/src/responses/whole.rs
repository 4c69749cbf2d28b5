//! A run as one response that is answered whole: followed to its end, or until it waits for somebody.

use std::time::Duration;

use agent_core::words::{Job, Principal, Usage};
use axum::response::Response;
use http::StatusCode;
use run_service::layers::RunAnswer;
use run_service::streams::{Followed, Following, Interruption, RunEnd};
use tokio::time::{Instant, timeout_at};

use super::super::run::kept::Keep;
use super::super::run::paused::WaitingRun;
use super::super::run::stream;
use super::super::run::stream::WriteRun as _;
use super::super::run::waiting;
use super::response::{Frame, ResponseEvents};
use http_edge::variant_b::error::refuse_openai;
use http_edge::variant_b::state::Shared;
use http_edge::{answer, server_sent_events};

/// What a run comes to behind what was shown of it, as one answer.
pub(crate) struct Whole<'a> {
    pub(crate) edge: &'a Shared,
    /// On whose behalf it is read.
    pub(crate) by: Principal,
    pub(crate) job: Job,
    pub(crate) writer: ResponseEvents,
    pub(crate) keep: Option<Keep>,
    /// How many events were read.
    pub(crate) seen: usize,
}

impl Whole<'_> {
    /// The response of the run of a request that waits. As long as the runs go on that it began, it is
    /// followed. `None` where its client can decide nothing about it: that it waits is said elsewhere.
    pub(crate) async fn of_waiting(
        edge: &Shared,
        by: &Principal,
        job_id: &str,
        frame: &Frame,
        keep: &mut Option<Keep>,
    ) -> Option<Response> {
        let job = edge.variant.jobs.read(by.user_id.as_deref()?, job_id, Duration::ZERO).await.ok()??;
        let family = edge.variant.waits.of_family(&job).await.ok()?;
        if !family.is_under_way_for(by) && !family.waits.iter().any(|wait| wait.is_approved_by(by)) {
            return None;
        }
        let following = edge.variant.streams.as_ref().and_then(|streams| {
            let following = streams.follow_job_without_resuming(&job, 0)?;
            Some(streams.through_children(following, &edge.variant.waits, by))
        });
        let (writer, keep) = (ResponseEvents::new(frame.clone()), keep.take());
        let mut whole = Whole { edge, by: by.clone(), job, writer, keep, seen: 0 };
        if let Some(following) = following {
            return Some(whole.collect(following).await);
        }
        // Nobody can follow it: what it has come to so far is shown.
        let run = WaitingRun::read(edge, whole.job.clone(), None).await;
        run.events.iter().for_each(|event| whole.writer.event(&mut String::new(), event));
        whole.seen = run.events.len();
        Some(whole.pause().await)
    }

    pub(crate) async fn collect(mut self, mut following: Following) -> Response {
        let edge = self.edge;
        let until = Instant::now() + edge.variant.run_timeout;
        let mut nobody_reads_it = String::new();
        while let Ok(followed) = timeout_at(until, following.next()).await {
            nobody_reads_it.clear();
            match followed {
                Some(Followed::Stored { event, number }) => {
                    self.seen = usize::try_from(number).unwrap_or(usize::MAX).saturating_add(1);
                    self.writer.event(&mut nobody_reads_it, &event);
                }
                Some(Followed::Delta(_) | Followed::Progress(_)) => {}
                Some(Followed::Ended { end: RunEnd::Answer(answer), .. }) => {
                    let keep = self.keep.as_ref();
                    stream::keep_end(keep, &answer, &mut self.writer, &mut nobody_reads_it).await;
                    return self.answer();
                }
                Some(Followed::Ended { end, .. }) => {
                    let (status, error, log) = stream::failure(&end, edge.variant.production);
                    server_sent_events::log_failure(&self.job.run_id, status, &log);
                    return refuse_openai(status, &error, stream::retry_after(&end));
                }
                Some(Followed::Interrupted(Interruption::Waiting)) => return self.pause().await,
                Some(Followed::Interrupted(why)) => {
                    server_sent_events::log_interruption(&self.job.run_id, &why);
                    let error = stream::interruption(&why);
                    return refuse_openai(StatusCode::SERVICE_UNAVAILABLE, &error, None);
                }
                None => break,
            }
        }
        // The decision was taken, or the run was begun: an error would have clients repeat it.
        let sentence = format!(
            "This takes longer than a request may. Its result will be at /api/agent/jobs/{}.",
            self.job.id
        );
        let said = waiting::ending(&self.job.run_id, sentence, Usage::default());
        self.say(&said)
    }

    /// The run waits: its client is asked, or told so.
    async fn pause(mut self) -> Response {
        self.keep.iter().for_each(Keep::waits_again);
        let run = WaitingRun::read(self.edge, self.job.clone(), Some(self.seen)).await;
        let Some(paused) = run.paused(&self.by) else {
            let said = waiting::said(&self.job.run_id, &run.all());
            return self.say(&said);
        };
        let Some(shown) = self.writer.pause(&mut String::new(), &paused) else { return self.answer() };
        stream::keep_shown(self.keep.as_ref(), &paused.so_far.result, &shown, &mut self.writer).await;
        self.answer()
    }

    /// Ends in a sentence, which nothing goes on from.
    fn say(mut self, said: &RunAnswer) -> Response {
        let mut nobody_reads_it = String::new();
        self.writer.event(&mut nobody_reads_it, &waiting::reply(said));
        self.writer.not_kept();
        let _shown = self.writer.conclude(&mut nobody_reads_it, said);
        self.answer()
    }

    fn answer(&self) -> Response {
        answer::json(StatusCode::OK, &self.writer.response())
    }
}
