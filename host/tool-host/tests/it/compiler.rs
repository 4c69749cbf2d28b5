//! Compiling in a child process: what it may use up, and what of it is believed.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tool_host::Compiler;

use crate::harness::{Host, limits};
use crate::text::Text;

/// A host over one good component that no cache holds, with another compiler.
async fn start(compiler: impl FnOnce(&mut Compiler), component: &[u8]) -> (Host, tempfile::TempDir) {
    let cache = tempfile::tempdir().unwrap();
    fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let host = Host::start_with(&[("one.wasm", component)], limits(), |config| {
        config.cache = Some(cache.path().to_owned());
        compiler(&mut config.compiler);
    })
    .await;
    (host, cache)
}

/// What is said of a good component when this is its compiler.
async fn refused(compiler: impl FnOnce(&mut Compiler)) -> String {
    let (host, cache) = start(compiler, &Text::default().component()).await;
    assert_eq!(host.names(), [""; 0]);
    let left =
        fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(left, [""; 0], "nothing of it is kept");
    host.faults().join("\n")
}

fn script(compiler: &mut Compiler, text: &str) {
    compiler.program = "/bin/sh".into();
    compiler.arguments = vec!["-c".into(), text.into()];
}

/// A component whose one function takes a compiler more memory than it is worth: thousands of values that are
/// all alive at the same time.
fn bomb() -> Vec<u8> {
    let mut fields = "(func $bomb (result i32)\n".to_owned();
    for n in 0..60_000 {
        fields += &format!("(i32.load offset={} (i32.const {n}))\n", n % 4096);
    }
    fields += &"(i32.add)".repeat(59_999);
    fields += ")";
    Text { fields: &fields, ..Text::default() }.component()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_takes_too_much_memory_to_compile_is_refused_by_name() {
    let (host, _cache) = start(|compiler| compiler.memory_bytes = 48 << 20, &bomb()).await;
    assert_eq!(host.faults(), ["one.wasm: does not compile: it needs more than 48 MiB of memory"]);
    host.put("two.wasm", &Text { tool: "two", ..Text::default() }.component());
    host.host.reload().await;
    assert_eq!(host.names(), ["two"], "what is no bomb compiles within the same limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_takes_too_long_to_compile_is_refused_by_name() {
    let told = refused(|compiler| {
        script(compiler, "exec sleep 1000");
        compiler.time_limit = Duration::from_millis(100);
    })
    .await;
    assert_eq!(told, "one.wasm: was not compiled: it takes longer than 0.1 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_kills_its_compiler_is_refused_by_name() {
    let told = refused(|compiler| script(compiler, "kill -SEGV $$")).await;
    assert!(told.starts_with("one.wasm: crashed the compiler (signal: 11"), "{told}");
    let told = refused(|compiler| script(compiler, "kill -KILL $$")).await;
    assert_eq!(told, "one.wasm: was not compiled: it was killed; is memory short?");
    let told = refused(|compiler| script(compiler, "echo 'no such\ninstruction' >&2; exit 1")).await;
    assert_eq!(told, "one.wasm: does not compile: no such instruction");
    // As it panics where the container has no room for its threads.
    let panics = "echo 'The global thread pool has not been initialized.: ThreadPoolBuildError { kind: \
                  IOError(Os { code: 11, kind: WouldBlock }) }' >&2; exit 101";
    let told = refused(|compiler| script(compiler, panics)).await;
    assert_eq!(told, "one.wasm: cannot be compiled now: no threads can be started for it; it is tried again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_compiler_should_not_have_written_is_not_loaded() {
    for garbage in ["true", "echo garbage", "head -c 100000 /dev/urandom", "cat"] {
        let told = refused(|compiler| script(compiler, garbage)).await;
        let expected =
            "one.wasm: was not compiled: the compiler wrote something that is not a compiled component";
        assert!(told.starts_with(expected), "{garbage}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiler_that_floods_its_complaint_holds_nobody_up() {
    let told = refused(|compiler| script(compiler, "yes | head -c 10000000 >&2; exit 1")).await;
    assert!(told.starts_with("one.wasm: does not compile: y y y") && told.len() < 2000, "{}", told.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiler_has_no_environment() {
    let told = refused(|compiler| script(compiler, "cat /proc/$$/environ | tr '\\0' ' ' >&2; exit 1")).await;
    assert!(told.starts_with("one.wasm: crashed the compiler (exit status: 1)"), "{told}");
}

#[test]
fn a_compiler_has_given_up_what_it_does_not_need_before_it_reads_a_byte() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tool-compiler"))
        .args(["--memory-bytes", "1000000000", "--cpu-seconds", "7"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let proc = Path::new("/proc").join(child.id().to_string());
    let soft = |limits: &str, limit: &str| {
        let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
        line[limit.len()..].split_whitespace().next().unwrap().to_owned()
    };
    // The last limit that it sets.
    while soft(&fs::read_to_string(proc.join("limits")).unwrap(), "Max cpu time") != "7" {
        if let Some(status) = child.try_wait().unwrap() {
            let complaint = io::read_to_string(child.stderr.take().unwrap()).unwrap();
            panic!("it does not wait for its input: {status}, {complaint}");
        }
        std::thread::yield_now();
    }
    let (status, limits) =
        (fs::read_to_string(proc.join("status")).unwrap(), fs::read_to_string(proc.join("limits")).unwrap());
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
    let expected = [
        ("Max core file size", "0"),
        ("Max data size", "1000000000"),
        ("Max address space", "4000000000"),
        ("Max file size", "536870912"),
        ("Max open files", "16"),
    ];
    for (limit, value) in expected {
        assert_eq!(soft(&limits, limit), value, "{limits}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiler_that_cannot_be_started_is_tried_again() {
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("compiler");
    let (host, _cache) =
        start(|compiler| compiler.program.clone_from(&program), &Text::default().component()).await;
    let faults = host.faults();
    assert!(faults[0].contains("cannot be compiled now: No such file"), "{faults:?}");
    std::os::unix::fs::symlink(Path::new(env!("CARGO_BIN_EXE_tool-compiler")), &program).unwrap();
    host.until(|host| !host.names().is_empty()).await;
    assert_eq!(host.faults(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_full_is_done_without() {
    // A compiler that writes into memory only: of a file on disk it says that there is no room.
    let compiler = env!("CARGO_BIN_EXE_tool-compiler");
    let full = "case $(readlink /proc/$$/fd/1) in /memfd:*) exec COMPILER \"$0\" \"$@\";; esac; exit 75";
    let full = full.replace("COMPILER", compiler);
    let (host, cache) = start(|compiler| script(compiler, &full), &Text::default().component()).await;
    assert_eq!((host.faults(), host.names().len()), (vec![], 1));
    let is_compiled = |entry: io::Result<fs::DirEntry>| {
        entry.unwrap().path().extension().is_some_and(|extension| extension == "cwasm")
    };
    assert!(!fs::read_dir(cache.path()).unwrap().any(is_compiled), "nothing of it is kept");
}
