//! One greeting tool in three languages.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Handle;
use tool_host::PolicyFile;

use crate::callers::{Called, Callers, quantile};
use crate::components::{greeter, kept_cache};
use crate::{begin, config};

/// How long each row calls.
const TIME: Duration = Duration::from_secs(2);

/// As their files are named, and as people call them.
pub(crate) const LANGUAGES: [(&str, &str); 3] =
    [("rust", "Rust"), ("javascript", "JavaScript"), ("python", "Python")];

/// What all of them are asked.
pub(crate) const GREET: Called =
    Called { tool: "greeter", arguments: |number| json!({ "name": format!("Ada {number}") }) };

pub(crate) async fn print(guest_runtime: &Handle) {
    println!(
        "a greeting tool of `agent-tool new` in three languages, a fresh instance per call, {} s each row",
        TIME.as_secs()
    );
    let mut rust = [None; 2];
    for (language, name) in LANGUAGES {
        let wasm = match greeter(language) {
            Ok(wasm) => wasm,
            Err(why) => {
                println!("  {name:<10} left out: {}", why.replace('\n', "; "));
                continue;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("greeter.wasm"), &wasm).unwrap();
        let mut config = config(folder.path(), PolicyFile::None, guest_runtime);
        config.cache = Some(kept_cache());
        let host = Arc::new(begin(config).await);
        println!("  {name:<10} component {:.1} MiB", wasm.len() as f64 / f64::from(1 << 20));
        for (callers, rust) in [1, 8].into_iter().zip(&mut rust) {
            let mut stats = Callers::run(&host, callers, GREET, TIME).await;
            assert_eq!(stats.failed, 0, "{:?}", stats.failure);
            let rate = stats.calls_per_second();
            let of_rust = rate / *rust.get_or_insert(rate);
            println!(
                "    {callers} callers {rate:>8.0} calls/s   p50 {:>7.0} µs   p99 {:>7.0} µs   ({} calls)   {of_rust:.3} of Rust   \
                 linear memory {:.1} MiB",
                quantile(&mut stats.times, 0.5).as_secs_f64() * 1e6,
                quantile(&mut stats.times, 0.99).as_secs_f64() * 1e6,
                stats.times.len(),
                stats.peak_memory_bytes as f64 / f64::from(1 << 20),
            );
        }
    }
}
