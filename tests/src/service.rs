//! A running `agent-host`: the real binary in an environment of its own.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;
use test_servers::{Postgres, Redis, eventually, within};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::artifacts::{agent_host, agent_tool, shared_compile_cache};
use crate::caller::Caller;
use crate::component::Component;
use crate::log::Log;
use crate::model::Model;
use crate::process::{Ended, Process, Signal};
use crate::token::SECRET;

/// A service to be started: its environment, its tools, its arguments.
#[derive(Debug)]
pub struct Builder {
    program: Option<PathBuf>,
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
    components: Vec<Component>,
    unread: bool,
    home: TempDir,
    prepared: bool,
}

/// The binary with its environment, to be started by another program.
#[derive(Debug)]
pub struct Startable {
    /// The binary.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Environment of the process.
    pub variables: BTreeMap<String, String>,
    home: TempDir,
}

/// A service that answers. What a [`Caller`] can do can be done to it directly. Dropping it kills it, and
/// prints its log when the test fails.
pub struct Service {
    process: Process,
    caller: Caller,
    address: SocketAddr,
    home: TempDir,
}

impl Service {
    /// Variant A in production, on any free port of the loopback device, with the calculator and no model.
    pub fn variant_a() -> Builder {
        Builder::new(&["serve"])
            .env("NODE_ENV", "production")
            // Nobody approves the tools of tests.
            .env("TOOLS_APPROVAL", "off")
            .env("HOST", "127.0.0.1")
            .env("PORT", "0")
            .tools(["calculator"])
    }

    /// Variant B in production, on any free port of the loopback device, with embedded stores in a folder of
    /// its own, with the calculator and no model.
    pub fn variant_b() -> Builder {
        let builder = Self::variant_a();
        let database = builder.home().join("agent.db");
        builder
            .env("SERVICE_VARIANT", "b")
            .env("JWT_SECRET", SECRET)
            .env("DATABASE_URL", format!("sqlite://{}", database.display()))
            .env("REDIS_URL", "memory://")
    }

    /// Both variants, as [`Self::variant_b`].
    pub fn both_variants() -> Builder {
        Self::variant_b().env("SERVICE_VARIANT", "both")
    }

    /// The binary with these arguments and no variables but those of its folders.
    pub fn command(arguments: &[&str]) -> Builder {
        Builder::new(arguments)
    }

    /// The author's program with these arguments and no variables but those of its folders.
    pub fn author(arguments: &[&str]) -> Builder {
        Builder::new(arguments).program(&agent_tool())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client that can be given away.
    pub fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// What it has logged.
    pub fn log(&self) -> &Log {
        self.process.log()
    }

    /// Reads its log from now on: see [`Builder::unread`].
    pub fn read_log(&self) {
        self.process.read();
    }

    /// Tools folder of the service.
    pub fn tools_folder(&self) -> PathBuf {
        self.home.path().join("tools")
    }

    /// Puts a file into the tools folder as operators should: written aside and renamed.
    pub fn put(&self, component: &Component) {
        put(&self.tools_folder(), component);
    }

    /// Process id of the service.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits until nobody accepts connections at its address any more.
    pub async fn refuses_connections(&self) {
        let refused = async || TcpStream::connect(self.address).await.is_err().then_some(());
        eventually("connections to be refused", refused).await;
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> Ended {
        self.process.ended().await
    }

    /// Kills it, and waits until it has ended.
    pub async fn killed(&mut self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    /// Stops it as an orchestrator does. It must end well.
    pub async fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.ended().await.code, Some(0), "a service that is told to stop ends well");
    }
}

impl Deref for Service {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Drop for Service {
    #[expect(clippy::print_stderr, reason = "whoever looks into a failure needs the log")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the service at {} ---\n{}---", self.address, self.log());
        }
    }
}

impl Builder {
    fn new(arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a folder for the service");
        let tools = home.path().join("tools");
        fs::create_dir(&tools).expect("a folder for its tools");
        let this = Self {
            program: None,
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            variables: BTreeMap::new(),
            components: Vec::new(),
            unread: false,
            home,
            prepared: true,
        };
        this.env("TOOLS_DIR", tools).env("TOOLS_CACHE_DIR", shared_compile_cache())
    }

    /// Asks this model.
    #[must_use]
    pub fn model(self, model: &Model) -> Self {
        self.env("LLM_MODEL", model.name())
            .env("LLM_API_KEY", model.key())
            .env("LLM_BASE_URL", model.base_url())
    }

    /// Asks this model when the first one fails.
    #[must_use]
    pub fn second_model(self, model: &Model) -> Self {
        self.env("ALT_LLM_MODEL", model.name())
            .env("ALT_LLM_API_KEY", model.key())
            .env("ALT_LLM_BASE_URL", model.base_url())
    }

    /// Keeps cache, rate windows and queue on this server.
    #[must_use]
    pub fn redis(self, redis: &Redis) -> Self {
        self.env("REDIS_URL", redis.url())
    }

    /// Keeps its records on this server.
    #[must_use]
    pub fn postgres(self, postgres: &Postgres) -> Self {
        self.env("DATABASE_URL", postgres.url())
    }

    /// Keeps its records in that folder, so that another service can go on with them.
    #[must_use]
    pub fn sqlite_in(self, folder: &Path) -> Self {
        self.env("DATABASE_URL", format!("sqlite://{}", folder.join("agent.db").display()))
    }

    /// Gives the service these tools and no others.
    #[must_use]
    pub fn tools<C: Into<Component>>(mut self, components: impl IntoIterator<Item = C>) -> Self {
        self.components = components.into_iter().map(Into::into).collect();
        self
    }

    /// One tool more.
    #[must_use]
    pub fn tool(mut self, component: impl Into<Component>) -> Self {
        self.components.push(component.into());
        self
    }

    /// Another binary than the one under test.
    #[must_use]
    pub fn program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        let value = value.as_ref().to_str().expect("variables of these tests are text");
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Takes so many requests that no rate window ends a test.
    #[must_use]
    pub fn without_windows(self) -> Self {
        let windows = ["RATE_LIMIT_IP", "RATE_LIMIT_USER", "RATE_LIMIT_PREMIUM"];
        windows.into_iter().fold(self, |this, window| this.env(window, "1000000000"))
    }

    /// Sets no such variable.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.variables.remove(name);
        self
    }

    /// Does not read its log before [`Service::read_log`]. Such a service has to be [started
    /// at](Self::start_at) an address.
    #[must_use]
    pub fn unread(mut self) -> Self {
        self.unread = true;
        self
    }

    /// A folder of the service's own.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Makes the start not wait for the tools.
    #[must_use]
    pub fn before_tools(mut self) -> Self {
        self.prepared = false;
        self
    }

    /// Starts it and waits until it listens and its tools are prepared.
    pub async fn start(self) -> Service {
        let prepared = self.prepared;
        let (process, home) = self.spawn();
        let address = process.log().find("the address it listens on", address_in).await;
        if prepared {
            process.log().line_with(&["all tools are prepared"]).await;
        }
        Service { process, caller: Caller::new(address), address, home }
    }

    /// Starts it and waits until it accepts connections at an address that is known beforehand.
    pub async fn start_at(self, address: SocketAddr) -> Service {
        let (process, home) = self.spawn();
        let accepts = async || TcpStream::connect(address).await.ok();
        eventually(&format!("{address} to accept connections"), accepts).await;
        Service { process, caller: Caller::new(address), address, home }
    }

    /// Runs it to its end, which must come by itself.
    pub async fn run(self) -> Ended {
        let (mut process, _home) = self.spawn();
        process.ended().await
    }

    /// What another program has to be told that starts it by itself.
    pub fn for_others(self) -> Startable {
        self.place_components();
        let Self { program, arguments, variables, home, .. } = self;
        Startable { program: program.unwrap_or_else(agent_host), arguments, variables, home }
    }

    fn place_components(&self) {
        for component in &self.components {
            let file = self.home.path().join("tools").join(component.file());
            fs::write(file, &component.bytes).expect("the folder can be written");
        }
    }

    fn spawn(self) -> (Process, TempDir) {
        self.place_components();
        let mut command = Command::new(self.program.clone().unwrap_or_else(agent_host));
        command
            .args(&self.arguments)
            // Nothing of the environment of the tests may decide what they find.
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home.path())
            .envs(&self.variables)
            .current_dir(self.home.path());
        let spawn = if self.unread { Process::spawn_unread } else { Process::spawn };
        (spawn(&mut command), self.home)
    }
}

impl Startable {
    /// Puts a file into the tools folder, as [`Service::put`].
    pub fn put(&self, component: &Component) {
        put(&self.home.path().join("tools"), component);
    }

    /// Starts it with pipes for its input and its output, for a test that is its client.
    pub fn spawn(&self, stderr: Stdio) -> Child {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(&self.variables);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).kill_on_drop(true);
        command.spawn().expect("the binary can be started")
    }

    /// Runs it to its end, which comes when it has read that.
    pub async fn run_with(&self, input: &str) -> Ended {
        let mut child = self.spawn(Stdio::piped());
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(input.as_bytes()).await.expect("it reads its input");
        drop(stdin);
        let output = within("the process to end", child.wait_with_output()).await;
        let output = output.expect("our own child can be waited for");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes text");
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

fn put(folder: &Path, component: &Component) {
    let aside = folder.join(format!(".{}.part", component.name));
    fs::write(&aside, &component.bytes).expect("the folder can be written");
    fs::rename(aside, folder.join(component.file())).expect("a file can be renamed within its folder");
}

/// The address in the line of the log that says where the service listens, JSON or text.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, fields) = line.split_once("serving")?;
    let texts = fields.split(|c: char| !(c.is_ascii_hexdigit() || ".:[]".contains(c)));
    texts.filter_map(|text| text.parse().ok()).next()
}
