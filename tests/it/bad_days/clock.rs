//! The clock of a machine jumps an hour ahead and back while it works on a job: leases are counted by the
//! store's clock and by ones that do not jump, so that nobody takes the job away, and what is asked meanwhile
//! is done at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acceptance::{Builder, Model, Service, Stores, Token, says};
use tempfile::TempDir;
use tokio::time::sleep;

/// Every process looks for leases that have ended once a second.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// Tells one process another time than it is.
struct Clock(TempDir);

impl Clock {
    fn right() -> Self {
        let clock = Self(tempfile::tempdir().expect("a folder for what the clock says"));
        clock.jumps("+0");
        clock
    }

    /// From now on it is that far from the truth, such as `-1h`.
    fn jumps(&self, offset: &str) {
        let aside = self.0.path().join("offset.part");
        fs::write(&aside, format!("{offset}\n")).expect("the folder can be written");
        fs::rename(aside, self.file()).expect("a file can be renamed within its folder");
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("offset")
    }

    /// A service that has this clock. The one by which programs wait (`CLOCK_MONOTONIC`) goes on as before,
    /// as a machine's does.
    fn of(&self, service: Builder) -> Builder {
        service
            .env("LD_PRELOAD", library())
            .env("FAKETIME_TIMESTAMP_FILE", self.file())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            // The times of files are not its business.
            .env("NO_FAKE_STAT", "1")
    }
}

/// libfaketime, where Debian puts it: in a folder of the machine's architecture.
fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|folder| folder.path());
    let mut libraries = folders
        .chain([PathBuf::from("/usr/lib"), PathBuf::from("/usr/local/lib")])
        .map(|folder| folder.join("faketime/libfaketime.so.1"));
    libraries
        .find(|library| Path::exists(library))
        .expect("there is no libfaketime: install it (apt-get install libfaketime; `cargo xtask test` does)")
}

/// When a service answered that request, by its own clock. As text such times are in their order.
async fn answered_at(service: &Service, path: &str) -> String {
    service.get(path).await;
    let line = service.log().entry("the request", |line| line["path"] == path).await;
    line["timestamp"].as_str().expect("a line has a time").to_owned()
}

async fn check_jumps(stores: Stores) {
    let (clock, model) = (Clock::right(), Model::openai().await);
    let gate = model.holds(says("held"));
    model.always(|request| says(&request.user_text()));
    let service = || stores.service(&model).env("AGENT_TIMEOUT_MS", "300000");
    let one = clock.of(service()).start().await;
    let user = one.user(Token::of("u").premium());
    let held = user.job_for("held").await;
    model.was_asked(1).await;
    let other = service().start().await;

    for (number, offset) in ["+1h", "-1h"].into_iter().enumerate() {
        clock.jumps(offset);
        // Otherwise nothing of this would be tested. The other one answers later in truth, and then earlier.
        let path = format!("/clock/{number}");
        let jumped = if number == 0 {
            answered_at(&one, &path).await > answered_at(&other, &path).await
        } else {
            answered_at(&other, &path).await > answered_at(&one, &path).await
        };
        assert!(jumped, "the clock did not jump by {offset}");

        let asked = format!("asked at {offset}");
        let next = user.job_for(&asked).await;
        user.completed_job(&next, &asked).await;
        sleep(LONG_ENOUGH).await;
        assert_eq!(model.calls().len(), number + 2, "the job that is worked on was taken away");
    }
    gate.open();
    let ended = other.user(Token::of("u").premium()).completed_job(&held, "held").await;
    assert_eq!(ended["attemptsMade"], 1, "{ended:#}");
    assert_eq!(model.calls().len(), 3);
    // libfaketime leaves its shared memory behind in a process that is killed.
    one.stop().await;
}

on_each! { check_jumps:
    a_clock_that_jumps_takes_no_job_on_redis_away = Stores::redis_and_postgres().await;
    a_clock_that_jumps_takes_no_job_in_postgres_away = Stores::postgres().await;
}
