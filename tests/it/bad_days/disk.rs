//! A disk that is full, and one that may only be read: what SQLite cannot do is said clearly, and what it had
//! done stays.
//!
//! The disk is a small file system in memory, mounted for the service alone, which takes root's rights or
//! user namespaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use acceptance::{Caller, Model, Process, Service, Startable, Token, eventually, says};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

/// A disk that has room for a few long jobs beside the tables, and for all that becomes of them once the
/// filler is gone.
const FULL_DISK: &str =
    "mount -t tmpfs -o size=16m disk \"$DISK\" && head -c 15300000 /dev/zero > \"$DISK/filler\"";

/// A service whose database is on a disk of its own.
struct Confined {
    process: Process,
    caller: Caller,
    id: String,
    disk: PathBuf,
    _service: Startable,
}

impl Confined {
    /// Runs `prepare` in a shell with the disk's folder as `$DISK` before the service.
    async fn start(model: &Model, prepare: &str) -> Self {
        let builder = Service::variant_b().model(model).tools([] as [&str; 0]);
        let disk = builder.home().join("disk");
        fs::create_dir(&disk).unwrap();
        let builder = builder.env("DATABASE_URL", format!("sqlite://{}/agent.db", disk.display()));
        let service = builder.env("TOKEN_BUDGET_PER_REQUEST", "1000000").for_others();
        let process = spawn(&service, &disk, prepare);
        let serving = process.log().entry("the address it listens on", is_serving).await;
        let address = serving["address"].as_str().unwrap().parse().unwrap();
        let id = fs::read_to_string(disk.with_file_name("id")).unwrap().trim().to_owned();
        Self { process, caller: Caller::new(address), id, disk, _service: service }
    }

    /// The disk's folder, seen from outside.
    fn disk(&self) -> PathBuf {
        let inside = self.disk.strip_prefix("/").expect("an absolute path");
        Path::new("/proc").join(&self.id).join("root").join(inside)
    }
}

impl Drop for Confined {
    #[expect(clippy::print_stderr, reason = "whoever looks into a failure needs the log")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the service ---\n{}---", self.process.log());
        }
    }
}

fn is_serving(entry: &Value) -> bool {
    entry["message"] == "serving"
}

fn spawn(service: &Startable, disk: &Path, prepare: &str) -> Process {
    let home = disk.parent().unwrap();
    let script = format!("echo $$ > id && {prepare} && exec \"$SERVICE\" serve");
    let mut command = Command::new("unshare");
    command
        .args(namespaces())
        .args(["sh", "-c", &script])
        .env_clear()
        .envs(&service.variables)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", home)
        .env("SERVICE", &service.program)
        .env("DISK", disk)
        .current_dir(home);
    Process::spawn(&mut command)
}

/// A mount of our own: root may have one, others as root of a namespace of users.
fn namespaces() -> &'static [&'static str] {
    let as_root: &[&str] = &["--mount"];
    let as_anybody: &[&str] = &["--user", "--map-root-user", "--mount"];
    let works = |arguments: &&&[&str]| {
        let mut command = std::process::Command::new("unshare");
        let status = command.args(**arguments).arg("true").stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let found = [as_root, as_anybody].iter().find(works).copied();
    found.expect("a disk of its own takes `unshare` and either root's rights or user namespaces")
}

#[tokio::test]
async fn a_full_disk_costs_nothing_that_was_accepted() {
    let model = Model::openai().await;
    model.expects_no_tools();
    model.always(|request| says(&format!("read {} bytes", request.user_text().len())));
    let service = Confined::start(&model, FULL_DISK).await;
    let user = service.caller.user(Token::of("u").premium());
    let long = "x".repeat(60_000);
    let mut accepted = Vec::new();
    let refused = loop {
        let answer = user.submit(&long).await;
        if answer.status != 202 {
            break answer;
        }
        accepted.push(answer.json()["jobId"].as_str().unwrap().to_owned());
        assert!(accepted.len() < 50, "the disk has no room for that many");
    };
    assert_eq!(
        (refused.status, refused.body.as_str()),
        (503, r#"{"error":"Service temporarily unavailable"}"#),
        "{refused}"
    );
    assert!(!accepted.is_empty());
    service.process.log().line_with(&["the disk is full"]).await;
    // Who waits for an answer gets one: requests are recorded behind it.
    assert_eq!(user.result_of("hi").await["output"], "read 2 bytes");

    fs::remove_file(service.disk().join("filler")).unwrap();
    for job in &accepted {
        user.completed_job(job, "read 60000 bytes").await;
    }
    let next = eventually("jobs to be accepted again", async || {
        let answer = user.submit("once more").await;
        (answer.status == 202).then(|| answer.json()["jobId"].as_str().unwrap().to_owned())
    })
    .await;
    assert_eq!(user.ended_job(&next).await["status"], "completed");
    check_integrity(&service.disk().join("agent.db"));
}

/// Asks SQLite's own judgement, of a copy that holds all that was committed.
fn check_integrity(database: &Path) {
    let copy = tempfile::tempdir().unwrap();
    for suffix in ["", "-wal"] {
        let from = PathBuf::from(format!("{}{suffix}", database.display()));
        if from.exists() {
            fs::copy(from, copy.path().join(format!("agent.db{suffix}"))).unwrap();
        }
    }
    let check = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('PRAGMA integrity_check').fetchone()[0])";
    let checked = std::process::Command::new("python3")
        .args(["-c", check])
        .arg(copy.path().join("agent.db"))
        .output()
        .expect("python3, which the document store of the tests is written in");
    assert_eq!(String::from_utf8_lossy(&checked.stdout).trim(), "ok", "{checked:?}");
}

/// The tables are there: a service made them before.
async fn made_database(model: &Model) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    Service::variant_b().model(model).sqlite_in(folder.path()).start().await.stop().await;
    folder
}

/// The service lives and is not ready; a caller that submits a job is told to come back, and one that waits
/// for an answer gets one.
async fn check_that_it_serves_without(caller: &Caller) {
    let ready = caller.readiness().await;
    assert_eq!((ready.status, &ready.json()["initialized"]), (503, &json!(false)), "{ready}");
    let user = caller.user(Token::of("u"));
    let refused = user.submit("work").await;
    assert_eq!(
        (refused.status, refused.body.as_str()),
        (503, r#"{"error":"Service temporarily unavailable"}"#),
        "{refused}"
    );
    assert_eq!(user.result_of("hi").await["output"], "hello");
}

#[tokio::test]
async fn a_disk_that_may_only_be_read_is_said_to_be_so() {
    let model = Model::openai().await;
    model.expects_no_tools().says("hello");
    let folder = made_database(&model).await;
    let file = folder.path().join("agent.db");
    let before = fs::read(&file).unwrap();
    let prepare =
        format!("mount --bind {0} \"$DISK\" && mount -o remount,ro,bind \"$DISK\"", folder.path().display());
    let service = Confined::start(&model, &prepare).await;
    service.process.log().line_with(&["cannot be opened"]).await;
    check_that_it_serves_without(&service.caller).await;
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn a_database_that_may_only_be_read_is_said_to_be_so() {
    let model = Model::saying("hello").await;
    let folder = made_database(&model).await;
    let file = folder.path().join("agent.db");
    let before = fs::read(&file).unwrap();
    let url = format!("sqlite://{}?mode=ro", file.display());
    let service = Service::variant_b().model(&model).env("DATABASE_URL", url).start().await;
    service.log().line_with(&["the database is read-only"]).await;
    // What is approved cannot be written down, so the folder decides.
    check_that_it_serves_without(&service).await;
    assert_eq!(fs::read(&file).unwrap(), before);
}
