//! What is resident for each tool that waits to be called, and for each call under way.
//!
//! Measured by a process of its own, which this one starts when everything is compiled, so that no memory of
//! earlier rows is taken for it. The allocator is that of this bench, not that of the service.

use std::fs;
use std::net::SocketAddr;
use std::ops::Sub;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use agent_core::ports::{ToolSet, Toolbox};
use futures::future::join_all;
use serde_json::json;
use test_servers::{HttpConnection, HttpServer};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tool_host::{Config, PolicyFile, ToolHost};

use crate::components::{component, digest, greeter, kept_cache, put_named};
use crate::languages::{GREET, LANGUAGES};
use crate::{begin, call, config};

/// Has this bench measure instead of starting others.
pub(crate) const ARGUMENT: &str = "measure-memory";

/// Tools that wait to be called.
const IDLE: usize = 50;

/// Calls under way at the same time.
const CALLS: usize = 64;

const ANSWER: &str =
    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nhi";

/// What the system says is resident of this process, in bytes.
#[derive(Clone, Copy)]
struct Resident {
    /// All of it: also pages of files, which other processes may share and the system may take back.
    all: i64,
    /// What no file has.
    anonymous: i64,
}

/// Compiles everything and starts the process that measures.
pub(crate) async fn print(guest_runtime: &Handle) {
    let folder = tempfile::tempdir().unwrap();
    put_named(folder.path(), 0..IDLE);
    fs::write(folder.path().join("http-fetch.wasm"), component("tools-granted", "http-fetch")).unwrap();
    let mut config = idle(folder.path(), guest_runtime);
    // Loads `http-fetch` without its grant.
    config.learn = true;
    begin(config).await;
    let measured = Command::new(std::env::current_exe().unwrap()).arg(ARGUMENT).status().unwrap();
    assert!(measured.success(), "measuring memory: {measured}");
}

pub(crate) fn measure() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(cores).enable_all().build().unwrap();
    runtime.block_on(async {
        println!("resident memory, in a process of its own, of which the part that no file has");
        tools().await;
        languages().await;
        calls().await;
    });
}

async fn tools() {
    let folder = tempfile::tempdir().unwrap();
    put_named(folder.path(), 0..1);
    let host = begin(idle(folder.path(), &Handle::current())).await;
    // Before it is looked: what is written was in memory.
    put_named(folder.path(), 1..IDLE);
    let one = Resident::now();
    host.reload().await;
    let all = Resident::now();
    assert_eq!((host.list().len(), host.compile_counts().0), (IDLE, 0), "all found compiled");
    (all - one).print("an idle tool (calculator)", IDLE - 1);
}

/// One of each: what an interpreter adds.
async fn languages() {
    for (language, name) in LANGUAGES {
        let Ok(wasm) = greeter(language) else {
            println!("  an idle tool in {name}: left out, see above");
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let host = begin(idle(folder.path(), &Handle::current())).await;
        fs::write(folder.path().join("greeter.wasm"), wasm).unwrap();
        let before = Resident::now();
        host.reload().await;
        assert_eq!(host.compile_counts().0, 0, "found compiled");
        (Resident::now() - before).print(&format!("an idle greeting tool in {name}"), 1);
        let before = Resident::now();
        call(&*host.everything(), GREET.tool, (GREET.arguments)(0)).await;
        (Resident::now() - before).print(&format!("  kept after its first call, in {name}"), 1);
    }
}

/// Calls that wait for a server, so that all of them are under way when it is looked.
async fn calls() {
    let server = Server::start().await;
    let host = fetching(server.http.address()).await;
    let set: Arc<dyn ToolSet> = host.everything();
    let fetch = async || {
        let url = format!("http://{}/", server.http.address());
        call(&*set, "fetch", json!({ "url": url })).await;
    };
    server.may_answer.add_permits(1);
    fetch().await;
    server.arrived.acquire().await.unwrap().forget();
    let before = Resident::now();
    let look = async {
        server.arrived.acquire_many(CALLS as u32).await.unwrap().forget();
        let during = Resident::now();
        server.may_answer.add_permits(CALLS);
        during
    };
    let (during, _) = tokio::join!(look, join_all((0..CALLS).map(|_| fetch())));
    (during - before).print("a call under way (http-fetch, with its server's side)", CALLS);
    (Resident::now() - before).print("  kept of each when all have ended", CALLS);
}

fn idle(folder: &Path, guest_runtime: &Handle) -> Config {
    let mut config = config(folder, PolicyFile::None, guest_runtime);
    config.cache = Some(kept_cache());
    config.remembers = false;
    config
}

/// A host whose `http-fetch` may ask the server.
async fn fetching(server: SocketAddr) -> ToolHost {
    let home = tempfile::tempdir().unwrap();
    let (tools, policy) = (home.path().join("tools"), home.path().join("policy.toml"));
    let wasm = component("tools-granted", "http-fetch");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("http-fetch.wasm"), &wasm).unwrap();
    let (digest, port) = (digest(&wasm), server.port());
    let lines = format!(
        "[[component]]\nname = \"http-fetch\"\ndigest = \"{digest}\"\n[[component.http]]\nscheme = \"http\"\n\
         host = \"127.0.0.1\"\nport = {port}\nprivate = true\n"
    );
    fs::write(&policy, lines).unwrap();
    let mut config = idle(&tools, &Handle::current());
    config.policy = PolicyFile::At(policy);
    config.limits.component_concurrency = CALLS as u32;
    begin(config).await
}

/// Answers each request when it may.
struct Server {
    http: HttpServer,
    /// A permit for each request that has arrived.
    arrived: Arc<Semaphore>,
    /// A permit for each that may be answered.
    may_answer: Arc<Semaphore>,
}

impl Server {
    async fn start() -> Self {
        let (arrived, may_answer) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (noted, allowed) = (arrived.clone(), may_answer.clone());
        let serve = move |mut connection: HttpConnection| {
            let (arrived, may_answer) = (noted.clone(), allowed.clone());
            async move {
                connection.read_request().await;
                arrived.add_permits(1);
                may_answer.acquire().await.unwrap().forget();
                connection.write(ANSWER).await;
            }
        };
        Self { http: HttpServer::start(serve).await, arrived, may_answer }
    }
}

impl Resident {
    fn now() -> Self {
        let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let bytes = |name: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let kibibytes: i64 = line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap();
            kibibytes << 10
        };
        Self { all: bytes("Rss"), anonymous: bytes("Anonymous") }
    }

    /// What it is for each of `count`.
    fn print(self, what: &str, count: usize) {
        let each = |bytes: i64| bytes as f64 / count as f64 / 1024.0;
        println!(
            "  {what:<54} {:>8.0} KiB, {:>7.0} of them of no file   (of {count})",
            each(self.all),
            each(self.anonymous)
        );
    }
}

impl Sub for Resident {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { all: self.all - other.all, anonymous: self.anonymous - other.anonymous }
    }
}
