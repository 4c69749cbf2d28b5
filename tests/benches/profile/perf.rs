//! `perf`: samples of a running process, and what they say.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::areas::Frame;

/// Samples per second and processor: no divisor of the kernel's ticks, so that what follows them is not seen
/// always or never.
const FREQUENCY: &str = "499";

const INSTALL: &str = "install it (Debian: apt-get install linux-perf, Ubuntu: apt-get install linux-tools-$(uname -r), Fedora: \
                       dnf install perf)";

/// A recording that is under way.
pub(crate) struct Recording {
    perf: Child,
    file: PathBuf,
}

impl Recording {
    /// Begins to sample a process. An error says what to do.
    pub(crate) fn begin(process: u32, file: PathBuf) -> Result<Self, String> {
        let perf = Command::new("perf")
            .args(["record", "-q", "-F", FREQUENCY, "-g", "-o"])
            .arg(&file)
            .args(["-p", &process.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("perf cannot be started ({error}): {INSTALL}"))?;
        Ok(Self { perf, file })
    }

    /// Ends it and answers the chains of calls that were seen, each innermost first.
    pub(crate) fn end(mut self) -> Result<Vec<Vec<Frame>>, String> {
        let has_ended = self.perf.try_wait().is_ok_and(|ended| ended.is_some());
        let _gone_already = kill_process(Pid::from_child(&self.perf), Signal::INT);
        let mut said = String::new();
        if let Some(errors) = &mut self.perf.stderr {
            let _ = errors.read_to_string(&mut said);
        }
        self.perf.wait().map_err(|error| error.to_string())?;
        if has_ended || !self.file.is_file() {
            return Err(format!(
                "perf may not sample the process (as root it may, or with sysctl kernel.perf_event_paranoid=1): {}",
                said.trim()
            ));
        }
        let chains = parse(&script(&self.file)?);
        if chains.is_empty() { Err(format!("perf has seen nothing: {}", said.trim())) } else { Ok(chains) }
    }
}

fn script(file: &Path) -> Result<String, String> {
    let Output { status, stdout, stderr } = Command::new("perf")
        .args(["script", "--no-inline", "-F", "ip,sym,dso", "-i"])
        .arg(file)
        .output()
        .map_err(|error| format!("perf cannot be started ({error}): {INSTALL}"))?;
    if !status.success() {
        return Err(format!("perf script: {}", String::from_utf8_lossy(&stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Each sample is some lines of `address symbol (object)`, with empty lines between samples.
fn parse(script: &str) -> Vec<Vec<Frame>> {
    let (mut chains, mut chain) = (Vec::new(), Vec::new());
    for line in script.lines() {
        match frame_in(line) {
            Some(frame) => chain.push(frame),
            None if !chain.is_empty() => chains.push(std::mem::take(&mut chain)),
            None => {}
        }
    }
    if !chain.is_empty() {
        chains.push(chain);
    }
    chains
}

fn frame_in(line: &str) -> Option<Frame> {
    let (_address, rest) = line.trim().split_once(' ')?;
    let (symbol, object) = rest.rsplit_once(" (")?;
    let object = object.strip_suffix(')').unwrap_or(object);
    Some(Frame { symbol: symbol.trim().to_owned(), object: object.to_owned() })
}
