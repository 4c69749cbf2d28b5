//! Copies the sources of each place into the folder of what is built: as they are, without their tests, and
//! once more with a bug. Where a bug was planted before, the sources have to be there still: else the build
//! fails.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "cargo and a build script talk like this"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// A bug, in the sources of a place: the text that is replaced.
struct Place {
    name: &'static str,
    /// Below `host/`; a folder's `mod.rs` brings its other files along.
    file: &'static str,
    /// The file of the bug.
    with_bug: &'static str,
    is: &'static str,
    becomes: &'static str,
}

const PLACES: [Place; 7] = [
    // Two that open the shared queue at once each make one.
    Place {
        name: "group_commit",
        file: "backends/src/group_commit.rs",
        with_bug: "backends/src/group_commit.rs",
        is: "let mut opened = self.0.lock();
        let theirs =
            opened.as_ref().and_then(|(sender, batches)| Some((sender.upgrade()?, batches.upgrade()?)));",
        becomes: "let upgraded = |opened: &Opened<W, A>| {
            opened.as_ref().and_then(|(sender, batches)| Some((sender.upgrade()?, batches.upgrade()?)))
        };
        let theirs = upgraded(&self.0.lock());
        let mut opened = self.0.lock();",
    },
    // A worker is woken before there is a reason to look.
    Place {
        name: "claim_wakeup",
        file: "backends/src/sql/queue/claim_wakeup.rs",
        with_bug: "backends/src/sql/queue/claim_wakeup.rs",
        is: "        {
            let mut state = self.state.lock();
            state.next = Instant::now();
            state.wakes += 1;
        }
        self.woken.notify_one();",
        becomes: "        self.woken.notify_one();
        let mut state = self.state.lock();
        state.next = Instant::now();
        state.wakes += 1;",
    },
    // Whoever leaves takes the channel of another one who waits for the same job along.
    Place {
        name: "wakeups",
        file: "run-service/src/jobs/wakeups.rs",
        with_bug: "run-service/src/jobs/wakeups.rs",
        is: "sender.receiver_count() <= 1",
        becomes: "sender.receiver_count() <= 2",
    },
    // A caller is given the answer of an execution that had ended when it came.
    Place {
        name: "single_flight",
        file: "run-service/src/layers/single_flight.rs",
        with_bug: "run-service/src/layers/single_flight.rs",
        is: ".filter(|flight| flight.work.peek().is_none())",
        becomes: "",
    },
    // Readers are told of an event before it is stored.
    Place {
        name: "live",
        file: "run-service/src/live/mod.rs",
        with_bug: "run-service/src/live/journal.rs",
        is: "self.appended_to.append(run_id, epoch, first, events).await?;
        self.live.tell(run_id, || Stored { first, events: events.into() });",
        becomes: "self.live.tell(run_id, || Stored { first, events: events.into() });
        self.appended_to.append(run_id, epoch, first, events).await?;",
    },
    // A permit is looked for and not taken.
    Place {
        name: "admission",
        file: "run-service/src/layers/admission.rs",
        with_bug: "run-service/src/layers/admission.rs",
        is: "if let Ok(permit) = self.free.clone().try_acquire_owned() {
            return Permit { _permit: Some(permit) };",
        becomes: "if self.is_available() {
            return Permit { _permit: self.free.clone().try_acquire_owned().ok() };",
    },
    // A version is replaced before it is kept for the runs that began with it.
    Place {
        name: "retired",
        file: "tool-host/src/serving/retired.rs",
        with_bug: "tool-host/src/serving/retired.rs",
        is: "self.retired.keep(components(&before), components(&next));
        self.current.store(next);",
        becomes: "self.current.store(next.clone());
        self.retired.keep(components(&before), components(&next));",
    },
];

fn main() -> Result<(), String> {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = std::env::var_os("OUT_DIR").ok_or("cargo says where to build")?;
    for (folder, has_bug) in [("real", false), ("planted", true)] {
        let folder = PathBuf::from(&out).join(folder);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        for place in &PLACES {
            copy(place, &host, &folder, has_bug)?;
        }
    }
    Ok(())
}

/// Copies the files of a place.
fn copy(place: &Place, host: &Path, folder: &Path, has_bug: bool) -> Result<(), String> {
    let mut files = vec![(host.join(place.file), folder.join(format!("{}.rs", place.name)))];
    if let Some(room) = place.file.strip_suffix("mod.rs") {
        let entries = fs::read_dir(host.join(room)).map_err(|error| error.to_string())?;
        for entry in entries.filter_map(Result::ok).filter(|entry| entry.file_name() != "mod.rs") {
            files.push((entry.path(), folder.join(entry.file_name())));
        }
    }
    let mut planted = 0;
    for (from, to) in files {
        println!("cargo::rerun-if-changed={}", from.display());
        let mut text = fs::read_to_string(&from).map_err(|error| format!("{}: {error}", from.display()))?;
        if has_bug && from == host.join(place.with_bug) {
            planted += text.matches(place.is).count();
            text = text.replacen(place.is, place.becomes, 1);
        }
        fs::write(&to, without_tests(&text)).map_err(|error| error.to_string())?;
    }
    let is_there = !has_bug || planted == 1;
    is_there.then_some(()).ok_or_else(|| format!("{}: the bug is planted in {planted} places", place.name))
}

/// The code of a file: what is said of it as a whole may not stand where it is included.
fn without_tests(text: &str) -> String {
    let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.starts_with("//!"));
    lines.fold(String::new(), |text, line| text + line + "\n")
}
