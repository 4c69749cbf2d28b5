//! A document store of our own that speaks MongoDB's protocol: SecantusDB, which is a Python package, because
//! MongoDB itself is in no distribution's archive. It shows itself as a replica set of one, as a production
//! server would.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::server::{Server, is_server};

/// The Python that has the server's package, in the virtual environment that `cargo xtask test` makes.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/test-servers/secantusdb/bin/python3");

/// Starts the server, in Python. An update of a collection that is not there writes it into the catalog
/// inside of its transaction, under the collection's lock. `createIndexes` of version 0.7.0b3 makes the
/// collection under the lock of the whole store instead: when the two meet, it waits for the transaction's
/// row and the transaction for the lock, and the server answers nobody any more. Here it takes the
/// collection's lock first.
const BEGIN: &str = "\
from secantus.cli import main
from secantus.storage import Storage

create = Storage.create_collection

def create_collection(self, db, coll, options=None):
    with self._coll_lock(db, coll):
        return create(self, db, coll, options)

Storage.create_collection = create_collection
raise SystemExit(main())
";

/// A server, running or stopped. Dropping it stops it for good.
#[derive(Debug)]
pub struct Mongo {
    server: Server,
}

impl Mongo {
    /// Serves an empty store that flushes every write.
    pub async fn start() -> Self {
        let server = Server::new("SecantusDB", "listening on");
        // Without a file of ours it would take the settings of whichever it finds on the machine.
        fs::write(server.home().join("secantusd.toml"), "").expect("a file for the server's settings");
        let mut this = Self { server };
        this.resume().await;
        this
    }

    /// For `MONGODB_URL`. The driver talks to this address only, so another one put in its place, such as a
    /// proxy's, is not left for the one that the server names.
    pub fn url(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address())
    }

    /// Serves, at the same address as ever.
    pub async fn resume(&mut self) {
        let child = Command::new(find_python())
            .args(["-c", BEGIN, "--config"])
            .arg(self.home().join("secantusd.toml"))
            .args(["--host", "127.0.0.1", "--port", &self.address().port().to_string()])
            .arg("--storage-path")
            .arg(self.home().join("data"))
            .args(["--sync-on-commit", "--cache-size", "64M"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.new_log())
            .spawn()
            .expect("SecantusDB can be started");
        self.is_now(child, Signal::KILL).await;
    }
}

is_server!(Mongo);

fn find_python() -> PathBuf {
    let python = PathBuf::from(PYTHON);
    assert!(python.exists(), "there is no SecantusDB in target/test-servers: `cargo xtask test` installs it");
    python
}
