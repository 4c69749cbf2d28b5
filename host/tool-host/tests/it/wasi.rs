//! Components that import WASI, as the standard libraries of several languages do: they get a WASI that
//! grants nothing.

use std::sync::Arc;

use agent_core::words::ToolOutcome;
use serde_json::json;
use tool_host::PolicyFile;

use crate::granted_means::entry;
use crate::harness::{Host, limits, logged};
use crate::text::Text;

/// The parts of WASI 0.2 that the tests call, as its own packages have them.
pub(crate) const PACKAGES: &[&str] = &[
    "package wasi:cli@0.2.3;
    interface environment {
        get-environment: func() -> list<tuple<string, string>>;
        get-arguments: func() -> list<string>;
    }",
    "package wasi:random@0.2.3;
    interface random {
        get-random-bytes: func(len: u64) -> list<u8>;
        get-random-u64: func() -> u64;
    }",
    "package wasi:io@0.2.3;
    interface poll {
        resource pollable { block: func(); }
    }",
    "package wasi:clocks@0.2.3;
    interface wall-clock {
        record datetime { seconds: u64, nanoseconds: u32 }
        now: func() -> datetime;
    }
    interface monotonic-clock {
        use wasi:io/poll@0.2.3.{pollable};
        now: func() -> u64;
        subscribe-instant: func(when: u64) -> pollable;
        subscribe-duration: func(when: u64) -> pollable;
    }",
    "package wasi:filesystem@0.2.3;
    interface types { resource descriptor; }
    interface preopens {
        use types.{descriptor};
        get-directories: func() -> list<tuple<descriptor, string>>;
    }",
    "package wasi:sockets@0.2.3;
    interface network {
        enum error-code {
            unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout,
            concurrency-conflict, not-in-progress, would-block, invalid-state, new-socket-limit,
            address-not-bindable, address-in-use, remote-unreachable, connection-refused, connection-reset,
            connection-aborted, datagram-too-large, name-unresolvable, temporary-resolver-failure,
            permanent-resolver-failure
        }
        enum ip-address-family { ipv4, ipv6 }
    }
    interface tcp { resource tcp-socket; }
    interface tcp-create-socket {
        use network.{error-code, ip-address-family};
        use tcp.{tcp-socket};
        create-tcp-socket: func(address-family: ip-address-family) -> result<tcp-socket, error-code>;
    }",
    "package test:wasi;
    world wasi-tool {
        include agent:tool/sandboxed-tool@0.1.1;
        import wasi:cli/environment@0.2.3;
        import wasi:random/random@0.2.3;
        import wasi:clocks/wall-clock@0.2.3;
        import wasi:clocks/monotonic-clock@0.2.3;
        import wasi:filesystem/preopens@0.2.3;
        import wasi:sockets/tcp-create-socket@0.2.3;
    }",
];

const IMPORTS: &str = r#"
    (import "wasi:cli/environment@0.2.3" "get-environment" (func $environment (param i32)))
    (import "wasi:cli/environment@0.2.3" "get-arguments" (func $arguments (param i32)))
    (import "wasi:random/random@0.2.3" "get-random-bytes" (func $random (param i64 i32)))
    (import "wasi:random/random@0.2.3" "get-random-u64" (func $random_number (result i64)))
    (import "wasi:clocks/wall-clock@0.2.3" "now" (func $now (param i32)))
    (import "wasi:filesystem/preopens@0.2.3" "get-directories" (func $directories (param i32)))
    (import "wasi:sockets/tcp-create-socket@0.2.3" "create-tcp-socket" (func $socket (param i32 i32)))"#;

async fn call(call: &str) -> (ToolOutcome, String) {
    let text = Text { imports: IMPORTS, packages: PACKAGES, world: "wasi-tool", call, ..Text::default() };
    let host = Host::start(&[("text.wasm", &text.component())], limits()).await;
    assert_eq!(host.faults(), Vec::<String>::new());
    let returned = host.call("text", json!({})).await;
    (returned.receipt.outcome, returned.content)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_imports_wasi_runs_and_is_granted_nothing() {
    let refuse = |what: &str, count_at: u32| {
        format!("(call ${what} (i32.const 2000)) (if (i32.load (i32.const {count_at})) (then unreachable))")
    };
    let body = [
        refuse("environment", 2004),
        refuse("arguments", 2004),
        refuse("directories", 2004),
        // No socket, whatever the family.
        "(call $socket (i32.const 0) (i32.const 2000))
         (if (i32.ne (i32.load8_u (i32.const 2000)) (i32.const 1)) (then unreachable))"
            .to_owned(),
        // Time and chance are nobody's secret.
        "(call $now (i32.const 2000)) (if (i64.eqz (i64.load (i32.const 2000))) (then unreachable))
         (drop (call $random_number))
         (call $random (i64.const 32) (i32.const 2000))
         (if (i32.ne (i32.load (i32.const 2004)) (i32.const 32)) (then unreachable))
         (i32.const 96)"
            .to_owned(),
    ];
    assert_eq!(call(&body.concat()).await, (ToolOutcome::Ok, r#"{"ok":true}"#.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_cannot_have_the_host_make_random_bytes_by_the_megabyte() {
    let body = "(call $random (i64.const 1000000) (i32.const 2000)) (i32.const 96)";
    assert_eq!(call(body).await.0, ToolOutcome::Trapped);
}

/// The parts of WASI 0.2 that printing takes.
const PRINTING_PACKAGES: &[&str] = &[
    "package wasi:io@0.2.3;
    interface error { resource error; }
    interface streams {
        use error.{error};
        variant stream-error { last-operation-failed(error), closed }
        resource output-stream {
            blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
        }
    }",
    "package wasi:cli@0.2.3;
    interface stdout {
        use wasi:io/streams@0.2.3.{output-stream};
        get-stdout: func() -> output-stream;
    }
    interface stderr {
        use wasi:io/streams@0.2.3.{output-stream};
        get-stderr: func() -> output-stream;
    }",
    "package test:wasi;
    world printing-tool {
        include agent:tool/sandboxed-tool@0.1.1;
        import wasi:cli/stdout@0.2.3;
        import wasi:cli/stderr@0.2.3;
    }",
];

const PRINTING_IMPORTS: &str = r#"
    (import "wasi:cli/stdout@0.2.3" "get-stdout" (func $stdout (result i32)))
    (import "wasi:cli/stderr@0.2.3" "get-stderr" (func $stderr (result i32)))
    (import "wasi:io/streams@0.2.3" "[method]output-stream.blocking-write-and-flush"
        (func $write (param i32 i32 i32 i32)))"#;

/// A tool that prints the data of these fields by this call.
fn printing(fields: &str, call: &str) -> Vec<u8> {
    let (imports, packages, world) = (PRINTING_IMPORTS, PRINTING_PACKAGES, "printing-tool");
    Text { imports, packages, world, fields, call, ..Text::default() }.component()
}

/// Two lines at once, half a line that is gone on with, bytes that are no text, and no end of the last one.
#[test]
fn what_a_guest_prints_is_in_its_log_line_by_line() {
    let fields = r#"(data (i32.const 3000) "first\nsecond\nthi")
        (data (i32.const 3100) "rd\n\ff no text\n")
        (data (i32.const 3200) "trouble\1b[31m")"#;
    let call = "(local $out i32) (local.set $out (call $stdout))
        (call $write (local.get $out) (i32.const 3000) (i32.const 16) (i32.const 3500))
        (call $write (local.get $out) (i32.const 3100) (i32.const 12) (i32.const 3500))
        (call $write (call $stderr) (i32.const 3200) (i32.const 12) (i32.const 3500))
        (i32.const 96)";
    let text = printing(fields, call);
    let logged = logged(|_| async {
        let host = Host::start(&[("text.wasm", &text)], limits()).await;
        assert_eq!(host.faults(), Vec::<String>::new());
        assert_eq!(host.call("text", json!({})).await.receipt.outcome, ToolOutcome::Ok);
    });
    let printed: Vec<_> = logged
        .lines()
        .filter_map(|line| line.split_once(" tool: "))
        .filter(|(_, line)| line.contains("stream=std"))
        .map(|(head, line)| (head.contains("WARN"), line.split("\u{20}request_id=").next().unwrap()))
        .collect();
    assert_eq!(
        printed,
        [
            (false, "first"),
            (false, "second"),
            (false, "third"),
            (false, "\u{fffd} no text"),
            (true, r"trouble\u{1b}[31m")
        ]
    );
}

/// The first 1,024 bytes are shown, and the secret begins before their end.
#[test]
fn a_line_is_searched_for_secrets_before_it_is_cut() {
    const SECRET: &str = "hunter2-hunter2";
    let fields = format!(r#"(data (i32.const 3000) "{}{SECRET}\n")"#, "x".repeat(1_015));
    let call =
        "(call $write (call $stdout) (i32.const 3000) (i32.const 1031) (i32.const 5000)) (i32.const 96)";
    let (text, policy) = (printing(&fields, call), tempfile::NamedTempFile::new().unwrap());
    let lines = "[[component.http]]\nhost = \"a.test\"\n[[component.secret]]\nname = \"key\"\nenv = \"KEY\"\n\
                 header = \"x-key\"\nhosts = [\"a.test\"]\n";
    std::fs::write(policy.path(), entry("text", &text, lines)).unwrap();
    let logged = logged(|_| async {
        let host = Host::start_with(&[("text.wasm", &text)], limits(), |config| {
            config.policy = PolicyFile::At(policy.path().to_owned());
            config.environment = Arc::new(|name| (name == "KEY").then(|| SECRET.to_owned()));
        })
        .await;
        assert_eq!(host.faults(), Vec::<String>::new());
        assert_eq!(host.call("text", json!({})).await.receipt.outcome, ToolOutcome::Ok);
    });
    assert!(logged.contains("xxx[secret ") && !logged.contains("hunter2"), "{logged}");
}
