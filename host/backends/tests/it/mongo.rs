//! MongoDB, as SecantusDB plays it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agent_core::ports::{Epoch, JournalError, RunStore};
use agent_core::testing::{asks_for, says};
use agent_core::words::{Event, RunQuery, RunRecord};
use backends::mongo::MongoStore;
use futures::future::join_all;
use mongodb::Client;
use mongodb::bson::{Document, doc};
use serde_json::{Value, json};
use test_servers::{Mongo, Proxy, Task, eventually};

use crate::contract::retention as retained;
use crate::contract::runs::Bench;

mod runs {
    crate::contract::runs::test_all!(test_in_turn(super::start, super::open_runs));
}

mod retention {
    crate::contract::retention::test_all!(test_in_turn(super::start, super::open_retention));
}

mod conversations {
    crate::contract::conversations::test_all!(test_in_turn(super::start, super::open_conversations));
}

async fn start() -> Option<Mongo> {
    Some(Mongo::start().await)
}

/// Two processes that share a database of their own.
async fn replicas(server: &Mongo) -> (Replica, Replica) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let url = server.url().replace("/?", &format!("/{name}?"));
    (Replica::open(&url).await, Replica::open(&url).await)
}

async fn open_conversations(server: &Mongo) -> crate::contract::conversations::Bench {
    let (here, there) = replicas(server).await;
    crate::contract::conversations::Bench {
        store: here.store.conversations(),
        peer: there.store.conversations(),
        retention: Some(here.store.conversation_retention()),
        _guard: Box::new((here, there)),
    }
}

async fn open_retention(server: &Mongo) -> retained::Bench {
    let (here, there) = replicas(server).await;
    retained::Bench {
        store: here.store.retention(None),
        peer: there.store.retention(None),
        leases: [here.store.leases(), there.store.leases()],
        things: Box::new(retained::RunThings(here.runs.clone())),
        _guard: Box::new((here, there)),
    }
}

async fn open_runs(server: &Mongo) -> Bench {
    let (here, there) = replicas(server).await;
    Bench { store: here.runs.clone(), peer: there.runs.clone(), _guard: Box::new((here, there)) }
}

/// A process of the service, as far as its runs go.
struct Replica {
    store: MongoStore,
    runs: Arc<dyn RunStore>,
    writer: Task<()>,
}

impl Replica {
    async fn open(url: &str) -> Self {
        let store = MongoStore::open(url).await.unwrap();
        let (runs, writer) = store.runs();
        Self { store, runs, writer: Task::begin(writer.run()) }
    }

    async fn behind(proxy: &Proxy) -> Self {
        Self::open(&format!("mongodb://{}/?directConnection=true", proxy.address())).await
    }
}

fn reply(text: &str) -> Event {
    Event::from(says(text))
}

fn record(id: &str) -> RunRecord {
    RunRecord {
        user_id: None,
        ..agent_core::testing::record(id, agent_core::testing::failed("the model refused"))
    }
}

fn is_store_error<T: std::fmt::Debug>(result: &Result<T, JournalError>) -> bool {
    matches!(result, Err(JournalError::Store { .. }))
}

#[tokio::test]
async fn events_hold_what_documents_cannot() {
    let server = Mongo::start().await;
    let bench = open_runs(&server).await;
    let deep = (0..50).fold(json!("bottom"), |inner, _| json!({ "$set": [inner] }));
    for (run, arguments) in [
        ("run_deep", deep),
        ("run_keys", json!({ "$where": 1, "a.b": { "": 2, ".": 3 }, "\0": 4, "_id": { "$oid": "x" } })),
        ("run_numbers", json!([u64::MAX, i64::MIN, 1e308, 5e-324, -0.0, 0.1])),
        ("run_nothing", Value::Null),
    ] {
        let event = Event::from(asks_for(&[("call_1", "add", arguments)]));
        bench.store.append(run, Epoch(1), 0, std::slice::from_ref(&event)).await.unwrap();
        assert_eq!(bench.store.read(run, 0).await.unwrap(), [event], "{run}");
    }
}

#[tokio::test]
async fn an_event_that_no_document_can_hold_is_refused_and_holds_up_no_other() {
    let server = Mongo::start().await;
    let bench = open_runs(&server).await;
    let event = reply(&"x".repeat(16 * 1024 * 1024));
    let small = reply("small");
    let (big, small) = tokio::join!(
        bench.store.append("run_big", Epoch(1), 0, std::slice::from_ref(&event)),
        bench.store.append("run_1", Epoch(1), 0, std::slice::from_ref(&small))
    );
    let Err(JournalError::Store { detail }) = big else { panic!("{big:?}") };
    assert!(detail.contains("16777216 in one document"), "{detail}");
    assert_eq!(small, Ok(()));
    let text = "x".repeat(15 * 1024 * 1024);
    bench.store.append("run_big", Epoch(1), 0, &[reply(&text)]).await.unwrap();
    assert_eq!(bench.store.read("run_big", 0).await.unwrap(), [reply(&text)]);
    let number = bench.store.append("run_1", Epoch(1), u64::MAX, &[Event::Cancelled]).await;
    assert!(is_store_error(&number), "{number:?}");
}

#[tokio::test]
async fn one_conflict_among_many_appends_fails_alone() {
    let server = Mongo::start().await;
    let Bench { store: runs, peer, _guard } = open_runs(&server).await;
    peer.append("run_50", Epoch(1), 0, &[reply("taken")]).await.unwrap();
    let ids: Vec<_> = (0..100).map(|run| format!("run_{run}")).collect();
    let event = reply("mine");
    let answers =
        join_all(ids.iter().map(|id| runs.append(id, Epoch(1), 0, std::slice::from_ref(&event)))).await;
    let failed: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert_eq!(failed, [JournalError::Conflict { run_id: "run_50".into(), sequence: 0 }]);
    for id in ids.iter().filter(|id| *id != "run_50") {
        assert_eq!(runs.read(id, 0).await.unwrap().len(), 1, "{id}");
    }
}

/// An earlier release wrote the first event of an append before the others, with two commands.
#[tokio::test]
async fn an_event_that_a_replaced_worker_wrote_behind_a_later_claim_is_not_read_and_gives_way() {
    let server = Mongo::start().await;
    let replica = Replica::open(&server.url()).await;
    let runs = &replica.runs;
    runs.append("run_1", Epoch(1), 0, &[reply("first")]).await.unwrap();
    runs.append("run_1", Epoch(2), 1, &[reply("taken up")]).await.unwrap();
    let client = Client::with_uri_str(server.url()).await.unwrap();
    let documents = client.database("agent_host").collection::<Document>("run_events");
    let mut late = documents.find_one(doc! { "epoch": 1_i64 }).await.unwrap().unwrap();
    for sequence in [2_i64, 3] {
        late.insert("_id", doc! { "run": "run_1", "sequence": sequence });
        documents.insert_one(&late).await.unwrap();
    }
    let seen = [reply("first"), reply("taken up")];
    for from in 0..=2 {
        assert_eq!(runs.read("run_1", from as u64).await.unwrap(), seen[from..], "{from}");
        assert_eq!(runs.read_page("run_1", from as u64, 10).await.unwrap(), seen[from..], "{from}");
    }
    let next = [reply("third"), reply("fourth"), reply("fifth")];
    runs.append("run_1", Epoch(2), 2, &next).await.unwrap();
    assert_eq!(runs.append("run_1", Epoch(2), 2, &next).await, Ok(()), "its own again");
    assert_eq!(runs.read("run_1", 0).await.unwrap(), [&seen[..], &next[..]].concat());
    let fenced = JournalError::Fenced { run_id: "run_1".into() };
    assert_eq!(runs.append("run_1", Epoch(1), 4, &[reply("later")]).await, Err(fenced));
}

/// The runs of somebody who has few would be looked for among those of everybody.
#[tokio::test]
async fn lists_of_one_users_runs_have_an_index_that_retention_makes_where_there_are_many_runs_already() {
    let server = Mongo::start().await;
    let replica = Replica::open(&server.url()).await;
    replica.runs.save(&record("run_1")).await.unwrap();
    replica.runs.list(&RunQuery { user_id: Some("u1"), limit: 1, after: None }).await.unwrap();
    let client = Client::with_uri_str(server.url()).await.unwrap();
    let records = client.database("agent_host").collection::<Document>("run_records");
    let index = "user_id_1_finished_at_1__id_1";
    let is_there = async || records.list_index_names().await.unwrap().iter().any(|name| name == index);
    assert!(is_there().await);
    records.drop_index(index).await.unwrap();
    replica.store.retention(None).oldest().await.unwrap();
    assert!(is_there().await);
}

#[tokio::test]
async fn ten_replicas_may_begin_at_once_on_an_empty_server() {
    let server = Mongo::start().await;
    let replicas = join_all((0..10).map(async |_| Replica::open(&server.url()).await)).await;
    let events: Vec<_> = (0..10).map(|replica| reply(&format!("replica {replica}"))).collect();
    let appends = replicas
        .iter()
        .zip(&events)
        .map(|(replica, event)| replica.runs.append("run_1", Epoch(1), 0, std::slice::from_ref(event)));
    let (answers, saved) = tokio::join!(
        join_all(appends),
        join_all(replicas.iter().map(async |replica| { replica.runs.save(&record("run_1")).await }))
    );
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    assert!(saved.iter().all(Result::is_ok), "{saved:?}");
}

#[tokio::test]
async fn a_server_that_is_killed_fails_what_needs_it_and_comes_back_with_everything() {
    let mut server = Mongo::start().await;
    let replica = Replica::open(&server.url()).await;
    replica.runs.append("run_1", Epoch(1), 0, &[reply("before")]).await.unwrap();
    replica.runs.save(&record("run_1")).await.unwrap();
    server.pause().await;
    let probe = replica.store.probe();
    let lost = reply("lost");
    let (appended, read) = tokio::join!(
        replica.runs.append("run_1", Epoch(1), 1, std::slice::from_ref(&lost)),
        replica.runs.read("run_1", 0)
    );
    assert!(is_store_error(&appended) && is_store_error(&read), "{appended:?} {read:?}");
    let record = record("run_1");
    let (saved, found) = tokio::join!(replica.runs.save(&record), replica.runs.find("run_1"));
    assert!(is_store_error(&saved) && is_store_error(&found), "{saved:?} {found:?}");
    let error = probe.check().await.unwrap_err();
    assert!(!error.0.contains(&server.address().port().to_string()), "{error}");
    server.resume().await;
    eventually("the server to be noticed", async || probe.check().await.ok()).await;
    replica.runs.append("run_1", Epoch(1), 1, &[reply("after")]).await.unwrap();
    assert_eq!(replica.runs.read("run_1", 0).await.unwrap(), [reply("before"), reply("after")]);
    assert_eq!(replica.runs.find("run_1").await.unwrap(), Some(record));
}

#[tokio::test]
async fn a_server_that_is_down_when_the_service_begins_is_found_later() {
    let mut server = Mongo::start().await;
    server.pause().await;
    let replica = Replica::open(&server.url()).await;
    assert!(is_store_error(&replica.runs.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await));
    server.resume().await;
    eventually("the append to succeed", async || {
        replica.runs.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.ok()
    })
    .await;
}

/// The process has written the event before it, so that the store asks for nothing first whose answer would
/// be lost already.
#[tokio::test]
async fn an_append_whose_answer_is_lost_is_made_once() {
    let server = Mongo::start().await;
    let mut proxy = Proxy::before(server.address()).await;
    let replica = Replica::behind(&proxy).await;
    let other = Replica::open(&server.url()).await;
    replica.runs.append("run_1", Epoch::UNCLAIMED, 0, &[reply("first")]).await.unwrap();
    proxy.stall_answers();
    let runs = replica.runs.clone();
    let append =
        Task::begin(async move { runs.append("run_1", Epoch::UNCLAIMED, 1, &[reply("second")]).await });
    eventually("the server to have it", async || {
        (other.runs.read("run_1", 0).await.unwrap().len() == 2).then_some(())
    })
    .await;
    proxy.reset().await;
    // The driver asks again by itself, or the run does.
    let heard = append.ended().await;
    assert!(heard.is_ok() || is_store_error(&heard), "{heard:?}");
    eventually("the server to be reached", async || {
        replica.runs.append("run_1", Epoch::UNCLAIMED, 1, &[reply("second")]).await.ok()
    })
    .await;
    assert_eq!(other.runs.read("run_1", 0).await.unwrap(), [reply("first"), reply("second")]);
}

#[tokio::test]
async fn a_server_that_holds_its_connections_and_says_nothing_fails_what_needs_it() {
    let server = Mongo::start().await;
    let replica = Replica::open(&server.url()).await;
    replica.runs.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
    server.freeze();
    let (append, read) = tokio::join!(
        replica.runs.append("run_1", Epoch(1), 1, &[Event::Cancelled]),
        replica.runs.read("run_1", 0)
    );
    assert!(is_store_error(&append) && is_store_error(&read), "{append:?} {read:?}");
    server.thaw();
    eventually("the append to succeed", async || {
        replica.runs.append("run_1", Epoch(1), 1, &[Event::Cancelled]).await.ok()
    })
    .await;
}

#[tokio::test]
async fn the_writer_ends_when_nobody_can_append_any_more() {
    let server = Mongo::start().await;
    let Replica { store, runs, writer } = Replica::open(&server.url()).await;
    let last = runs.clone();
    let append = Task::begin(async move { last.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await });
    assert_eq!(append.ended().await, Ok(()));
    drop(runs);
    writer.ended().await;
    store.close().await;
    assert!(store.probe().check().await.is_err());
}

#[tokio::test]
async fn whoever_appends_after_the_writer_has_ended_is_told() {
    let store = MongoStore::open("mongodb://127.0.0.1:1").await.unwrap();
    let (runs, writer) = store.runs();
    drop(writer);
    assert!(is_store_error(&runs.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await));
}

#[tokio::test]
async fn no_error_holds_a_secret() {
    for url in ["mongodb://u:hunter2@", "mongodb://u:hunter2@h:99999/db", "mongodb://u:hunter2@h/?hunter2=1"]
    {
        let error = MongoStore::open(url).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let replica = Replica::open("mongodb://u:hunter2@127.0.0.1:1/db").await;
    let append = replica.runs.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap_err();
    let probe = replica.store.probe().check().await.unwrap_err();
    for text in [format!("{append} {append:?}"), format!("{probe} {probe:?}")] {
        assert!(!text.contains("hunter2") && !text.contains("127.0.0.1"), "{text}");
    }
    assert!(!format!("{:?}", replica.store).contains("hunter2"));
}
