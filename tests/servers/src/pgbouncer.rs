//! PgBouncer before a PostgreSQL server: in transaction mode, on a free port. The distribution's, or a newer
//! one that `cargo xtask test` has built.

use std::fs;
use std::iter;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::postgres::{Postgres, other_user};
use crate::server::Server;

/// A pooler. Dropping it stops it for good.
#[derive(Debug)]
pub struct PgBouncer {
    server: Server,
}

/// Where `cargo xtask test` puts one that is newer than the distribution's.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/test-servers/pgbouncer/pgbouncer");

/// A version of PgBouncer that can be started.
#[derive(Debug)]
pub struct PgBouncerProgram {
    path: &'static str,
    /// Whether it keeps the prepared statements of its clients apart: since 1.21.
    pub knows_prepared_statements: bool,
}

impl PgBouncerProgram {
    /// The distribution's, and the newer one where there is one.
    pub fn all() -> Vec<Self> {
        let built = Path::new(BUILT).exists().then_some(BUILT);
        iter::once("pgbouncer").chain(built).map(Self::at).collect()
    }

    /// One that is fit for transaction mode. Nothing, and a word about it, where there is none.
    #[expect(clippy::print_stderr, reason = "whoever reads the tests' output should know")]
    pub fn fit() -> Option<Self> {
        let fit = Self::all().into_iter().find(|program| program.knows_prepared_statements);
        if fit.is_none() {
            eprintln!("not tested: there is no PgBouncer 1.21 or newer");
        }
        fit
    }

    fn at(path: &'static str) -> Self {
        let output = Command::new(path).arg("--version").output().expect(INSTALL);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version =
            text.lines().next().and_then(|line| line.strip_prefix("PgBouncer ")).unwrap_or_default();
        let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
        Self { path, knows_prepared_statements: (numbers.next(), numbers.next()) >= (Some(1), Some(21)) }
    }
}

impl PgBouncer {
    /// Serves all databases of that server in transaction mode, with further lines of configuration.
    pub async fn start(program: &PgBouncerProgram, postgres: &Postgres, settings: &[&str]) -> Self {
        let mut server = Server::new("PgBouncer", "process up");
        let (home, address) = (server.home(), server.address());
        let lines = [
            "[databases]".to_owned(),
            format!("* = host=127.0.0.1 port={}", postgres.address().port()),
            "[pgbouncer]".to_owned(),
            "listen_addr = 127.0.0.1".to_owned(),
            format!("listen_port = {}", address.port()),
            "unix_socket_dir =".to_owned(),
            "auth_type = trust".to_owned(),
            format!("auth_file = {}", home.join("users").display()),
            "pool_mode = transaction".to_owned(),
        ];
        let settings = settings.iter().map(|setting| (*setting).to_owned());
        let text = lines.into_iter().chain(settings).collect::<Vec<_>>().join("\n");
        fs::write(home.join("pgbouncer.ini"), text + "\n").expect("a file for its settings");
        fs::write(home.join("users"), "\"postgres\" \"hunter2\"\n").expect("a file for its users");
        let mut command = Command::new(program.path);
        command.arg(home.join("pgbouncer.ini")).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(server.new_log());
        if let Some(user) = other_user() {
            chown(home, Some(user), Some(user)).expect("root may give its folders away");
            command.uid(user).gid(user);
        }
        server.is_now(command.spawn().expect(INSTALL), Signal::KILL).await;
        Self { server }
    }

    /// For `DATABASE_URL`.
    pub fn url(&self) -> String {
        format!("postgres://postgres:hunter2@{}/postgres", self.server.address())
    }
}

const INSTALL: &str = "pgbouncer can be started: install it (apt-get install pgbouncer)";
