//! What has ended is kept for as long as the settings say; what has not ended stays, whatever they say.

use std::path::Path;

use acceptance::{Builder, Ended, Model, Postgres, Service, Token, eventually, says};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Nothing is removed by the service itself.
const FOR_GOOD: [(&str, &str); 2] = [("JOBS_RETENTION_DAYS", "0"), ("RUNS_RETENTION_DAYS", "0")];

/// Only the newest of each stays, however old it is.
const ONE_OF_EACH: [(&str, &str); 4] = [
    ("JOBS_RETENTION_DAYS", "0"),
    ("RUNS_RETENTION_DAYS", "0"),
    ("JOBS_RETENTION_COUNT", "1"),
    ("RUNS_RETENTION_COUNT", "1"),
];

fn with(builder: Builder, settings: &[(&str, &str)]) -> Builder {
    settings.iter().fold(builder, |builder, (name, value)| builder.env(name, value))
}

/// A command on the stores of a service whose database is in that folder.
async fn command(folder: &Path, settings: &[(&str, &str)], arguments: &[&str]) -> Ended {
    let command = Service::command(arguments).sqlite_in(folder).env("REDIS_URL", "memory://");
    with(command, settings).run().await
}

async fn value(service: &Service, metric: &str, what: &str) -> f64 {
    service.metrics().await.value(metric, &[("what", what)]).unwrap_or_default()
}

async fn removed(service: &Service, what: &str) -> f64 {
    value(service, "agent_retention_removed_total", what).await
}

/// The output of the command as JSON.
fn counts(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[tokio::test]
async fn old_ended_jobs_and_runs_go_once_unended_ones_stay_and_the_dropped_are_answered_from_their_runs() {
    let postgres = Postgres::start().await;
    let model = Model::openai().await;
    for n in 0..4 {
        model.says(&format!("answer {n}"));
    }
    let start = |settings| with(Service::variant_b().model(&model).postgres(&postgres), settings).start();
    let mut first = start(&FOR_GOOD[..]).await;
    let user = first.user(Token::of("u1"));
    let mut ids = Vec::new();
    for n in 0..4 {
        let id = user.job_for(&format!("job {n}")).await;
        assert_eq!(user.ended_job(&id).await["result"]["output"], format!("answer {n}"));
        ids.push(id);
    }
    // One that has made a step and is stopped before the next: it waits when the others are removed.
    model.asks_for("calculate", json!({ "expression": "6 * 7" }));
    let gate = model.holds(says("never read"));
    let unended = user.job_for("a long job").await;
    model.was_asked(6).await;
    first.killed().await;
    gate.open();

    let gate = model.holds(says("42"));
    let (one, other) = tokio::join!(start(&ONE_OF_EACH[..]), start(&ONE_OF_EACH[..]));
    for what in ["jobs", "runs"] {
        eventually("a sweep to have removed three", async || {
            let counts = [removed(&one, what).await, removed(&other, what).await];
            // One replica has removed them all, and the other one none.
            let [few, many] = if counts[0] < counts[1] { counts } else { [counts[1], counts[0]] };
            (few < 0.5 && (many - 3.0).abs() < 0.5).then_some(())
        })
        .await;
    }
    let user = one.user(Token::of("u1"));
    // The run's journal is whole: what was done is not done again.
    gate.open();
    user.completed_job(&unended, "42").await;
    assert_eq!(model.calls().len(), 7, "no model call was made twice but the one that was cut off");
    let kept = user.job(&ids[3]).await.json();
    assert_eq!(kept["result"]["output"], "answer 3", "the newest: {kept:#}");
    for id in &ids[..3] {
        assert_eq!(user.job(id).await.status, 404, "its run is gone as well");
    }
    for service in [&one, &other] {
        assert!(value(service, "agent_retention_failed_sweeps_total", "runs").await < 0.5);
        assert!(value(service, "agent_retention_last_sweep_timestamp_seconds", "runs").await > 1.5e9);
    }
}

/// A folder with the database of a service that has answered two users.
async fn used() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::openai().await;
    for n in 0..6 {
        model.says(&format!("answer {n}"));
    }
    let service = with(Service::variant_b().model(&model).sqlite_in(folder.path()), &FOR_GOOD).start().await;
    for id in ["ann", "bob"] {
        let user = service.user(Token::of(id));
        user.result_of(&format!("{id} asks")).await;
        let asked = json!({ "query": format!("{id} asks again"), "options": { "conversationId": "trip" } });
        assert_eq!(user.agent_with(asked).await.status, 200);
        let job = user.job_for(&format!("{id}'s job")).await;
        user.ended_job(&job).await;
    }
    service.stop().await;
    folder
}

#[tokio::test]
async fn a_user_is_forgotten_on_the_command_line_when_that_is_confirmed() {
    let folder = used().await;
    let run = async |arguments: &[&str]| command(folder.path(), &FOR_GOOD, arguments).await;
    // Nobody is at a terminal to be asked.
    let asked = run(&["runs", "forget", "--user", "ann"]).await;
    assert_eq!(asked.code, Some(1), "{asked:?}");
    assert!(asked.stderr.contains("1 jobs, 3 runs") && asked.stderr.contains("--yes"), "{asked:?}");
    for (user, jobs, runs, conversations) in [("ann", 1, 3, 1), ("ann", 0, 0, 0), ("nobody", 0, 0, 0)] {
        let forgotten = counts(&run(&["runs", "forget", "--user", user, "--yes", "--json"]).await);
        assert_eq!(
            forgotten,
            json!({ "removed": { "jobs": jobs, "runs": runs, "conversations": conversations, "tool_audit": 0 } }),
            "{user}"
        );
    }
    let left = run(&["runs", "forget", "--user", "bob", "--yes"]).await;
    assert!(left.stdout.starts_with("Removed 1 jobs, 3 runs"), "{left:?}");
    let nobody = run(&["runs", "forget", "--user", "", "--yes"]).await;
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
}

#[tokio::test]
async fn what_is_older_than_it_is_to_be_kept_is_swept_on_the_command_line() {
    let folder = used().await;
    let nothing = command(folder.path(), &FOR_GOOD, &["runs", "sweep"]).await;
    assert_eq!(nothing.code, Some(0), "{nothing:?}");
    assert!(nothing.stderr.contains("Nothing has ended"), "{nothing:?}");
    let asked = command(folder.path(), &ONE_OF_EACH, &["runs", "sweep"]).await;
    assert_eq!(asked.code, Some(1), "{asked:?}");
    assert!(asked.stderr.contains("1 jobs, 5 runs"), "{asked:?}");
    for (jobs, runs) in [(1, 5), (0, 0)] {
        let swept =
            counts(&command(folder.path(), &ONE_OF_EACH, &["runs", "sweep", "--yes", "--json"]).await);
        // How many runs are kept says nothing about conversations.
        let removed = json!({ "jobs": jobs, "runs": runs, "conversations": 0, "tool_audit": 0 });
        assert_eq!(swept, json!({ "removed": removed }));
    }
    let without = Service::command(&["runs", "sweep"]).run().await;
    assert_eq!(without.code, Some(1), "{without:?}");
    assert!(without.stderr.contains("DATABASE_URL"), "{without:?}");
}
