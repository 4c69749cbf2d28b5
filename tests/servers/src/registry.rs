//! A registry of our own for OCI artifacts: Debian's `docker-registry`, without TLS.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::server::{Server, is_server};

/// Who may use [`Registry::with_login`], and with which password.
pub const REGISTRY_LOGIN: (&str, &str) = ("publisher", "hunter2");

/// [`REGISTRY_LOGIN`] as `htpasswd -nbB -C 4 publisher hunter2` writes it.
const HTPASSWD: &str = "publisher:$2b$04$abcdefghijklmnopqrstuuV3duMsC0HpUex6N9qapiuOHHWkwRXVm\n";

/// A server, running or stopped. Dropping it stops it for good.
#[derive(Debug)]
pub struct Registry {
    server: Server,
}

impl Registry {
    /// Serves an empty registry to everybody.
    pub async fn start() -> Self {
        Self::configured("").await
    }

    /// Serves an empty registry to [`REGISTRY_LOGIN`] alone, who logs in with every request (Basic).
    pub async fn with_login() -> Self {
        Self::configured("auth:\n  htpasswd:\n    realm: tests\n    path: HOME/htpasswd\n").await
    }

    async fn configured(auth: &str) -> Self {
        let server = Server::new("docker-registry", "listening on");
        let (home, address) = (server.home(), server.address());
        let folder = home.to_str().expect("a folder whose name is text");
        let settings = format!(
            "version: 0.1\nlog:\n  accesslog:\n    disabled: true\nstorage:\n  filesystem:\n    rootdirectory: \
             HOME/data\nhttp:\n  addr: {address}\n{auth}"
        );
        fs::write(home.join("settings.yml"), settings.replace("HOME", folder)).expect("its settings");
        fs::write(home.join("htpasswd"), HTPASSWD).expect("its users");
        let mut this = Self { server };
        this.resume().await;
        this
    }

    /// For references: `host:port`.
    pub fn name(&self) -> String {
        self.address().to_string()
    }

    /// Serves, at the same address as ever.
    pub async fn resume(&mut self) {
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(self.home().join("settings.yml"))
            .env_clear()
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.new_log())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "docker-registry cannot be started ({error}): install it (apt-get install docker-registry)"
                )
            });
        self.is_now(child, Signal::KILL).await;
    }
}

is_server!(Registry);
