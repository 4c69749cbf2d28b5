//! A PostgreSQL server of our own: in a temporary folder, on a free port, without a word to any other.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Signal, geteuid};

use crate::server::{Server, is_server};

/// Where the files of empty databases lie that tests copy.
const TEMPLATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/test-servers");

/// A server, running or stopped. Dropping it stops it for good.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    options: Vec<String>,
    server: Server,
}

impl Postgres {
    /// Makes an empty database and serves it.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts the server with other settings, `name=value`.
    pub async fn start_with(settings: &[&str]) -> Self {
        let programs = find_programs();
        let server = Server::new("PostgreSQL", "database system is ready to accept connections");
        if let Some(user) = other_user() {
            chown(server.home(), Some(user), Some(user)).expect("root may give its folders away");
        }
        new_data(&programs, &server.home().join("data"));
        let options = settings.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]).collect();
        let mut this = Self { programs, options, server };
        this.resume().await;
        this
    }

    /// For `DATABASE_URL`.
    pub fn url(&self) -> String {
        format!("postgres://postgres:hunter2@{}/postgres", self.address())
    }

    /// Serves, at the same address as ever.
    pub async fn resume(&mut self) {
        let child = command(&self.programs, "postgres")
            .arg("-D")
            .arg(self.home().join("data"))
            .args(["-p", &self.address().port().to_string()])
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"])
            .args(&self.options)
            .stderr(self.new_log())
            .stdout(Stdio::null())
            .spawn()
            .expect("postgres can be started");
        // The quickest way out that takes the server's own children along.
        self.is_now(child, Signal::QUIT).await;
    }
}

is_server!(Postgres);

/// The folder of the newest server that is installed, or of the one in the search path.
fn find_programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let folders = versions.map(|version| version.path());
    let newest = folders.filter(|path| path.join("bin/initdb").exists()).max_by_key(|path| version(path));
    if let Some(newest) = newest {
        return newest.join("bin");
    }
    let in_search_path = Command::new("pg_config").arg("--bindir").output().ok();
    let folder = in_search_path.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    folder.filter(|folder| folder.join("initdb").exists()).unwrap_or_else(|| {
        panic!("there is no PostgreSQL server: install the package `postgresql` (apt-get install postgresql)")
    })
}

/// Makes the files of an empty database: by `initdb` for the first test in a target folder, which takes half
/// a second, and by a copy of those for every other, which takes a tenth of that.
fn new_data(programs: &Path, data: &Path) {
    // Another server, or another owner of its files, has another template.
    let name = format!("{}-{}", programs.display(), other_user().unwrap_or_default()).replace('/', "-");
    let template = Path::new(TEMPLATES).join(format!("initdb{name}"));
    if template.exists() {
        return copy(&template, data);
    }
    let made = command(programs, "initdb")
        .args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync", "-D"])
        .arg(data)
        .output()
        .expect("initdb can be started");
    assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
    // Other tests make it at this moment too. It gets its name when it is whole, and the first one keeps it.
    fs::create_dir_all(TEMPLATES).expect("a folder for the template");
    let part = tempfile::tempdir_in(TEMPLATES).expect("a folder for the template").keep();
    copy(data, &part.join("data"));
    let _lost = fs::rename(part.join("data"), &template);
    let _left = fs::remove_dir_all(&part);
}

/// Copies a folder, with its owner and its permissions.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).output().expect("cp can be started");
    assert!(copied.status.success(), "cp failed: {}", String::from_utf8_lossy(&copied.stderr));
}

/// Whom to be instead of root, as whom PostgreSQL and poolers refuse to run: `postgres` if there is one, else
/// nobody.
pub(crate) fn other_user() -> Option<u32> {
    const NOBODY: u32 = 65_534;
    if !geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let postgres =
        users.lines().find_map(|line| line.strip_prefix("postgres:")?.split(':').nth(1)?.parse().ok());
    Some(postgres.unwrap_or(NOBODY))
}

fn command(programs: &Path, program: &str) -> Command {
    let mut command = Command::new(programs.join(program));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").current_dir("/").stdin(Stdio::null());
    if let Some(user) = other_user() {
        command.uid(user).gid(user);
    }
    command
}
