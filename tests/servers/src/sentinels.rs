//! Three sentinels that watch over a Redis and its replicas.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::address::free_address;
use crate::child::Process;
use crate::command::ask;
use crate::redis::{Redis, redis_program};
use crate::waiting::eventually;

/// The name under which they know the master.
const NAME: &str = "main";

/// How many there are.
const NUMBER: usize = 3;

/// Sentinels that know each other. Dropping them stops them.
#[derive(Debug)]
pub struct Sentinels {
    addresses: Vec<SocketAddr>,
    _homes: Vec<TempDir>,
    _servers: Vec<Process>,
}

impl Sentinels {
    /// Watch over that master, which has so many replicas. They promote one when two of them have missed the
    /// master for a second.
    pub async fn over(master: &Redis, replicas: usize) -> Self {
        let addresses: Vec<_> = (0..NUMBER).map(|_| free_address()).collect();
        let homes: Vec<_> = addresses.iter().map(|address| prepare(*address, master.address())).collect();
        let servers = homes.iter().map(start).collect();
        let this = Self { addresses, _homes: homes, _servers: servers };
        let expected = format!("slaves={replicas},sentinels={NUMBER}");
        for address in &this.addresses {
            eventually("a sentinel to know the others", async || {
                let info = ask(*address, &["INFO", "sentinel"]).await;
                (info.contains("status=ok") && info.contains(&expected)).then_some(())
            })
            .await;
        }
        this
    }

    /// For `REDIS_URL`.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.addresses.iter().map(SocketAddr::to_string).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// The first one's answer to a command.
    pub async fn ask(&self, words: &[&str]) -> String {
        ask(self.addresses[0], words).await
    }

    /// Waits until most of them name that server as the master.
    pub async fn agree_on(&self, master: &Redis) {
        let expected = format!("address={},", master.address());
        eventually("the sentinels to name another master", async || {
            let mut agreed = 0;
            for address in &self.addresses {
                let info = ask(*address, &["INFO", "sentinel"]).await;
                agreed += usize::from(info.contains(&expected));
            }
            (agreed > NUMBER / 2).then_some(())
        })
        .await;
    }
}

fn prepare(address: SocketAddr, master: SocketAddr) -> TempDir {
    let home = tempfile::tempdir().expect("a folder for a sentinel");
    let lines = [
        "bind 127.0.0.1".to_owned(),
        format!("port {}", address.port()),
        format!("dir {}", home.path().display()),
        format!("sentinel monitor {NAME} 127.0.0.1 {} 2", master.port()),
        format!("sentinel down-after-milliseconds {NAME} 1000"),
        format!("sentinel failover-timeout {NAME} 5000"),
    ];
    fs::write(home.path().join("sentinel.conf"), lines.join("\n") + "\n").expect("a file for its settings");
    home
}

fn start(home: &TempDir) -> Process {
    let child = Command::new(redis_program())
        .arg(home.path().join("sentinel.conf"))
        .arg("--sentinel")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server can be started: install it (apt-get install redis-server)");
    Process::new(child, Signal::KILL)
}
