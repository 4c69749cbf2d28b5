//! Runs that are kept in the memory of one process, as those of Variant A without a database.

use super::*;

/// A journal that is only asked for one event at a time.
struct OneEventAtATime(Arc<TestRuns>);

#[boxed_async]
impl Journal for OneEventAtATime {
    async fn append(&self, _: &str, _: Epoch, _: u64, _: &[Event]) -> JournalResult {
        unreachable!("it is only read")
    }

    async fn read(&self, _: &str, _: u64) -> JournalResult<Vec<Event>> {
        panic!("all events are read for the sake of one")
    }

    async fn read_page(&self, run_id: &str, from: u64, most: u32) -> JournalResult<Vec<Event>> {
        assert_eq!(most, 1);
        self.0.read_page(run_id, from, most).await
    }
}

fn memory(journal: &Arc<TestRuns>, model: ScriptedModel, tools: EchoTools) -> RunStreams {
    let kept = RunStores { records: None, ..run_stores(journal) };
    let agent = Agent::new(Arc::new(model), Arc::new(tools), kept.journal.clone());
    streams_of(agent, kept)
}

/// Nobody can read the rest of such a run elsewhere, so no reader is told to resume.
#[tokio::test(start_paused = true)]
async fn a_run_that_ends_with_its_process_is_cancelled_and_its_readers_are_told_an_error() {
    let (journal, shutdown) = (Arc::new(TestRuns::default()), Shutdown::default());
    let here = memory(&journal, calling(), EchoTools::new(&["echo"]).hanging()).until(shutdown.clone());
    let mut started = here.start(ask(), RESUMES);
    for _ in 0..2 {
        started.next().await.unwrap();
    }
    let run_id = started.run_id().to_owned();
    let again = here.follow(&here.find(&run_id).await.unwrap().unwrap(), 2);
    shutdown.begin(Instant::now() + Duration::from_secs(26));
    shutdown.end_drain();
    assert!(timeout(Duration::from_secs(1), started.next()).await.is_err(), "until the requests' end");
    shutdown.end_requests();
    assert_eq!(read(again).await, ["failed: the service is stopping"]);
    assert_eq!(read(started).await, ["failed: the service is stopping"]);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(here.runs.under_way(), 0);
    assert_eq!(journal.events(&run_id).last(), Some(&Event::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_comes_again_costs_one_event_and_not_the_journal() {
    let journal = Arc::new(TestRuns::default());
    let here = memory(&journal, calling(), EchoTools::new(&["echo"]));
    let started = here.start(ask(), RESUMES);
    let run_id = started.run_id().to_owned();
    assert_eq!(read(started).await, WHOLE);
    let kept = RunStores { journal: Arc::new(OneEventAtATime(journal)), ..here.kept };
    let looking = streams_of(ScriptedInvoke::default(), kept);
    let run = looking.find(&run_id).await.unwrap().unwrap();
    assert_eq!(run.run_id, run_id);
    let given = [0, 4, 5].map(async |number| looking.has_given(&run, number).await.unwrap());
    assert_eq!(futures::future::join_all(given).await, [true, true, false]);
}
