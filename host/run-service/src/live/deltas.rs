//! The side of a run that tells what the model writes.

use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::ports::Deltas;

use super::LiveRun;
use super::reply::ReplyText;

/// Tells the watchers of a run what the model writes.
#[derive(Debug)]
pub struct ReplyDeltas<'a> {
    run: &'a LiveRun,
    number: u64,
    /// How many bytes were told.
    told: AtomicUsize,
}

impl LiveRun {
    /// Where a reply goes while it is written, if anybody watches; `number` is the one that its event will
    /// have. The text that it is told is the beginning of the reply's.
    pub fn deltas(&self, number: u64) -> Option<ReplyDeltas<'_>> {
        let is_watched = self.runs.is_watched(&self.run_id);
        is_watched.then(|| ReplyDeltas { run: self, number, told: AtomicUsize::new(0) })
    }

    fn write(&self, write: impl FnOnce(&mut ReplyText)) {
        if let Some(watched) = self.runs.0.lock().get(&self.run_id) {
            watched.reply.send_modify(write);
        }
    }
}

impl Deltas for ReplyDeltas<'_> {
    fn text(&self, text: &str) {
        let at = self.told.fetch_add(text.len(), Ordering::Relaxed);
        self.run.write(|reply| reply.write(self.number, at, text));
    }

    fn reset(&self) {
        let had = self.told.swap(0, Ordering::Relaxed);
        self.run.write(|reply| reply.reset(self.number, had));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{LiveRuns, NewText};

    fn new(number: u64, is_anew: bool, text: &str) -> Option<NewText> {
        Some(NewText { number, is_anew, text: text.into() })
    }

    #[tokio::test]
    async fn each_reader_takes_all_that_is_new_to_it() {
        let runs = LiveRuns::default();
        let run = runs.run("run_1");
        let mut early = runs.watch("run_1");
        let deltas = run.deltas(1).unwrap();
        (0..1_000).for_each(|_| deltas.text("ab"));
        assert_eq!(early.reply.take(), new(1, false, &"ab".repeat(1_000)));
        assert_eq!(early.reply.take(), None);
        deltas.text("c");
        let mut late = runs.watch("run_1");
        assert_eq!(early.reply.take(), new(1, false, "c"));
        assert_eq!(
            late.reply.take(),
            new(1, true, &("ab".repeat(1_000) + "c")),
            "it may have had some before"
        );
        let next = run.deltas(4).unwrap();
        next.text("d");
        assert_eq!([early.reply.take(), late.reply.take()], [new(4, false, "d"), new(4, false, "d")]);
    }

    #[tokio::test]
    async fn an_attempt_that_does_not_count_is_forgotten_by_those_who_have_read_of_it() {
        let runs = LiveRuns::default();
        let run = runs.run("run_1");
        let [mut with, mut without] = [(); 2].map(|()| runs.watch("run_1"));
        let deltas = run.deltas(1).unwrap();
        deltas.text("wrong");
        assert_eq!(with.reply.take(), new(1, false, "wrong"));
        deltas.reset();
        assert_eq!([with.reply.take(), without.reply.take()], [new(1, true, ""), None]);
        deltas.text("right");
        assert_eq!(
            [with.reply.take(), without.reply.take()],
            [new(1, false, "right"), new(1, false, "right")]
        );
    }

    #[tokio::test]
    async fn the_rest_of_a_reply_is_given_even_when_the_next_one_is_being_written() {
        let runs = LiveRuns::default();
        let run = runs.run("run_1");
        let [mut behind, mut nothing] = [(); 2].map(|()| runs.watch("run_1"));
        let deltas = run.deltas(1).unwrap();
        deltas.text("on");
        assert_eq!(behind.reply.take(), new(1, false, "on"));
        deltas.text("e");
        run.deltas(2).unwrap().text("two");
        assert_eq!(behind.reply.rest(1, "one"), new(1, false, "e"));
        assert_eq!(nothing.reply.rest(1, "one"), None, "the event has it");
        assert_eq!([behind.reply.rest(2, "two"), behind.reply.rest(2, "two")], [new(2, false, "two"), None]);
    }

    #[tokio::test]
    async fn words_of_an_attempt_that_does_not_count_are_not_gone_on_from() {
        let runs = LiveRuns::default();
        let run = runs.run("run_1");
        let mut behind = runs.watch("run_1");
        let deltas = run.deltas(1).unwrap();
        deltas.text("wrong");
        assert_eq!(behind.reply.take(), new(1, false, "wrong"));
        deltas.reset();
        deltas.text("right answer");
        run.deltas(3).unwrap().text("two");
        assert_eq!(behind.reply.rest(1, "right answer"), new(1, true, "right answer"));
        assert_eq!(behind.reply.take(), new(3, false, "two"));
    }

    #[tokio::test]
    async fn of_a_reply_whose_beginning_is_missing_nothing_is_given() {
        let runs = LiveRuns::default();
        let run = runs.run("run_1");
        let first = runs.watch("run_1");
        let deltas = run.deltas(1).unwrap();
        deltas.text("o");
        drop(first);
        deltas.text("n");
        let mut second = runs.watch("run_1");
        deltas.text("e");
        let mut third = runs.watch("run_1");
        assert_eq!([second.reply.take(), third.reply.take()], [None, None]);
        run.deltas(2).unwrap().text("two");
        assert_eq!(second.reply.rest(1, "one"), None);
        assert_eq!(second.reply.take(), new(2, false, "two"));
    }

    #[tokio::test]
    async fn who_had_the_beginning_of_a_reply_elsewhere_is_told_when_it_no_longer_counts() {
        for is_written_to in [false, true] {
            let runs = LiveRuns::default();
            let run = runs.run("run_1");
            let first = runs.watch("run_1");
            let deltas = run.deltas(1).unwrap();
            deltas.text("wr");
            drop(first);
            let mut second = runs.watch("run_1");
            if is_written_to {
                deltas.text("ong");
                assert_eq!(second.reply.take(), None);
            }
            deltas.reset();
            deltas.text("right");
            assert_eq!(second.reply.take(), new(1, true, "right"));
            deltas.text(" on");
            assert_eq!(second.reply.take(), new(1, false, " on"));
        }
    }
}
