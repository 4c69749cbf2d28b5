//! Packages tried out as a new user would: each is installed from its file into a clean place, `agent-tool
//! new` makes a tool there, `agent-host dev` is started with a home that has nothing else, and the README's
//! question is asked.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::run::run;

/// Seconds from the start to the answer.
const AIM: f64 = 10.0;

/// How long a start may take before it is given up: a build without optimizations compiles tools slowly.
const PATIENCE: Duration = Duration::from_mins(3);

const QUESTION: &str = r#"{"input": "What is (19.99 * 3 + 4.50) * 1.2?"}"#;

/// What the answer holds only if the calculator was called.
const ANSWER: &str = "77.364";

/// What `dev` says before its address.
const SERVES: &str = "agent-host serves on http://";

/// Installs each package below `folder` and asks it. Prints how long each took from the start of `agent-host
/// dev`, which finds nothing compiled; with `shares_compiled` only the first one does not.
pub(super) fn try_out(packages: &[PathBuf], folder: &Path, shares_compiled: bool) -> anyhow::Result<()> {
    let compiled = shares_compiled.then(|| folder.join("compiled"));
    for package in packages {
        let kind = package.extension().and_then(OsStr::to_str).unwrap_or_default();
        let place = folder.join("tried").join(kind);
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(&place)?;
        let Installed { binary, licence } = install(package, kind, &place)?;
        let text = fs::read_to_string(&licence).with_context(|| format!("reading {}", licence.display()))?;
        ensure!(text.contains("Apache License"), "{} is not the licence", licence.display());
        let said = Command::new(&binary).arg("--version").output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        // Behind it is the commit with its date, or that the build is somebody's own.
        let form = concat!("agent-host ", env!("CARGO_PKG_VERSION"), " (");
        ensure!(said.starts_with(form) && said.ends_with(")\n"), "its --version says {said:?}");
        let home = place.join("home");
        fs::create_dir(&home)?;
        let tool = binary.with_file_name("agent-tool");
        run(Command::new(tool)
            .args(["new", "greeter", "--lang", "rust", "--in"])
            .arg(&home)
            .stdout(Stdio::null()))?;
        let seconds = answer(&binary, &home, compiled.as_deref())
            .with_context(|| format!("trying {}", package.display()))?;
        let missed = if seconds > AIM { ", missed" } else { "" };
        println!(
            "packages: .{kind}: {seconds:.1} s from `agent-host dev` to an answer with a tool call (aim: {AIM}{missed})"
        );
        fs::remove_dir_all(&place)?;
    }
    Ok(())
}

/// Where an installed package has its files.
struct Installed {
    binary: PathBuf,
    licence: PathBuf,
}

/// Installs a package without a network.
fn install(package: &Path, kind: &str, place: &Path) -> anyhow::Result<Installed> {
    match kind {
        "whl" => {
            run(Command::new("python3").args(["-m", "venv"]).arg(place))?;
            let pip = ["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"];
            run(Command::new(place.join("bin/python3")).args(pip).arg(package))?;
            let packages = fs::read_dir(place.join("lib"))?.next().context("a venv has a library")??.path();
            let version = env!("CARGO_PKG_VERSION");
            let licence = format!("site-packages/agent_host-{version}.dist-info/licenses/LICENSE");
            Ok(Installed { binary: place.join("bin/agent-host"), licence: packages.join(licence) })
        }
        "tgz" => {
            let install = ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"];
            run(Command::new("npm").args(install).arg(place).arg(package))?;
            let modules = place.join("node_modules");
            Ok(Installed {
                binary: modules.join(".bin/agent-host"),
                licence: modules.join("agent-host/LICENSE"),
            })
        }
        "deb" => {
            run(Command::new("dpkg-deb").arg("--info").arg(package).stdout(Stdio::null()))?;
            install_debian_package(package, place)?;
            let licence = place.join("usr/share/doc/agent-host/copyright");
            Ok(Installed { binary: place.join("usr/bin/agent-host"), licence })
        }
        other => bail!("there is no way to install a .{other}"),
    }
}

/// Installs it into a root of its own. The libraries that it depends on are those of this machine, so dpkg
/// finds none there. Only root may give files to root: for others the package is unpacked.
fn install_debian_package(package: &Path, root: &Path) -> anyhow::Result<()> {
    let id = Command::new("id").arg("-u").output().context("starting id")?;
    if id.stdout.trim_ascii() != b"0" {
        println!("packages: .deb: unpacked and not installed: only root can have dpkg install it");
        return run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(root));
    }
    let database = root.join("var/lib/dpkg");
    fs::create_dir_all(database.join("updates"))?;
    fs::create_dir_all(database.join("info"))?;
    fs::write(database.join("status"), "")?;
    let dpkg = || {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display()));
        dpkg
    };
    run(dpkg()
        .args(["--force-depends", "--install"])
        .arg(package)
        .stdout(Stdio::null())
        .stderr(Stdio::null()))?;
    let shown = dpkg().args(["--status", "agent-host"]).output()?;
    let shown = String::from_utf8_lossy(&shown.stdout);
    ensure!(shown.contains("Status: install ok installed"), "dpkg says of the package: {shown}");
    Ok(())
}

/// Seconds from the start to the answer.
fn answer(binary: &Path, home: &Path, compiled: Option<&Path>) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut service = Command::new(binary);
    service.arg("dev").env_clear().env("HOME", home).env("PORT", "0").current_dir(home);
    service.envs(compiled.map(|folder| ("TOOLS_CACHE_DIR", folder)));
    let mut service = Service(service.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    let mut output = BufReader::new(service.0.stdout.take().context("its output is piped")?);
    let address = loop {
        let mut line = String::new();
        ensure!(output.read_line(&mut line)? > 0, "it ended before it served");
        if let Some(address) = line.trim().strip_prefix(SERVES) {
            break address.to_owned();
        }
    };
    // Somebody has to read what it writes, or it waits for that.
    thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    loop {
        let answer = exchange(&address, "POST /agent/invoke", QUESTION)?;
        if answer.contains(ANSWER) {
            return Ok(start.elapsed().as_secs_f64());
        }
        // Until its tools are compiled it says 5xx.
        ensure!(answer.starts_with("HTTP/1.1 5") && start.elapsed() < PATIENCE, "it answered {answer}");
    }
}

/// Kills it when it is dropped.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        // silent-ok: it has ended already, then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One request on a connection of its own; the whole answer.
fn exchange(address: &str, what: &str, body: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(
        stream,
        "{what} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
