//! The numbers of many simulations.

use std::fmt::Write as _;
use std::time::Duration;

use crate::faults::KINDS;
use crate::world::Counts;

/// Everything that a run of some seconds has to reach, or its workload is too weak.
pub const TO_BE_REACHED: [&str; 47] = [
    "a lost job was claimed again",
    "a restarted replica took its predecessor's jobs back",
    "an append was repeated",
    "a writer was fenced off",
    "an event number was taken",
    "a part of an append was read",
    "the end of an attempt claimed the next job",
    "a conversation was busy",
    "a request goes on as a job",
    "a stream was resumed",
    "a stream of a job was resumed",
    "a decision came second",
    "a call was shown anew",
    "a job ended whose last events were lost",
    "a job was submitted over HTTP",
    "a key was claimed again",
    "a key was in flight",
    "a turn was not the owner's to write any more",
    "a server forgot what it had acknowledged",
    "an acknowledged job was forgotten",
    "the first event of an append was stored without the others",
    "a run was left to a newer release",
    "a direct call waits",
    "a wait was decided over HTTP",
    "a stream was resumed over HTTP",
    "a stream broke off within an event",
    "a run of another replica was cancelled in its journal",
    "a statement was carried out after its caller had died",
    "a run began a run",
    "a run was cancelled with the one that began it",
    "a cancelled job was held to the end of its run",
    "a job was claimed to be cancelled",
    "a failed job was tried again",
    "a webhook told of a job that was tried again",
    "a webhook was somebody else's by then",
    "a renewal said that the job was cancelled",
    "a renewal said that the lease was lost",
    "the end of an attempt came too late",
    "a process stopped in good order",
    "a job was handed back as its process stopped",
    "a run was refused as its process stopped",
    "token_budget",
    "max_iterations",
    "max_tokens",
    "empty_reply",
    "a call with torn arguments was refused",
    "a run had no tokens left for one of its own",
];

/// Calls at which a replica has to have died.
pub const TO_DIE_AT: [&str; 14] = [
    "journal.append start",
    "journal.append reply",
    "journal.append call",
    "journal.append answer",
    "journal.append wait",
    "journal.append decision",
    "journal.append taken up",
    "queue.claim",
    "queue.settle completed",
    "queue.settle parked",
    "queue.resume",
    "conversation.settle",
    "model",
    "tool",
];

#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub simulations: u64,
    pub counts: Counts,
    pub took: Duration,
}

impl Tally {
    pub fn add(&mut self, counts: &Counts) {
        self.simulations += 1;
        let own = &mut self.counts;
        own.simulated += counts.simulated;
        own.calls += counts.calls;
        own.crashes += counts.crashes;
        own.crashes_with_work += counts.crashes_with_work;
        counts.kinds.iter().for_each(|(kind, times)| *own.kinds.entry(*kind).or_default() += times);
        for (own, more) in [(&mut own.reached, &counts.reached), (&mut own.died_at, &counts.died_at)] {
            more.iter().for_each(|(what, times)| *own.entry(what).or_default() += times);
        }
    }

    /// What was never reached of what has to be.
    pub fn missing(&self) -> Vec<String> {
        let Counts { reached, died_at, kinds, .. } = &self.counts;
        let reached = TO_BE_REACHED.iter().filter(|what| !reached.contains_key(*what));
        let died_at = TO_DIE_AT.iter().filter(|what| !died_at.contains_key(*what));
        let faults = KINDS.iter().filter(|(kind, _)| !kinds.contains_key(kind));
        let faults = faults.map(|(kind, _)| format!("{kind:?}"));
        reached.chain(died_at).map(|what| (*what).to_owned()).chain(faults).collect()
    }

    /// As a report for people.
    pub fn report(&self) -> String {
        let Self { simulations, counts, took } = self;
        let (seconds, hours) = (took.as_secs_f64(), counts.simulated.as_secs_f64() / 3_600.0);
        let mut text = String::new();
        let mut line = |what: std::fmt::Arguments<'_>| {
            // silent-ok: writing to a text never fails.
            let _ = writeln!(text, "{what}");
        };
        line(format_args!("simulations        {simulations} in {seconds:.1} s"));
        line(format_args!("simulated          {hours:.1} hours, {} calls of ports", counts.calls));
        line(format_args!(
            "crashes            {}, {} of them with work under way: {:.0} a second",
            counts.crashes,
            counts.crashes_with_work,
            counts.crashes_with_work as f64 / seconds.max(0.001),
        ));
        line(format_args!("faults"));
        for (kind, times) in &counts.kinds {
            line(format_args!("  {times:>8}  {kind:?}"));
        }
        for (title, counted) in [("died at", &counts.died_at), ("reached", &counts.reached)] {
            line(format_args!("{title}"));
            for (what, times) in counted {
                line(format_args!("  {times:>8}  {what}"));
            }
        }
        text
    }
}
