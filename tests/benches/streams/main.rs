//! Streams against a provider that streams by a script: time to the first event, events per second, memory of
//! a stream, the OpenAI front beside the native route, HTTP/2 beside HTTP/1.
//!
//! Everything runs in one go on one machine and takes turns with what it is compared with, so that the ratios
//! hold on a noisy one: streams with the provider read directly by the same reader, the OpenAI front with
//! `/api/agent` of the same service, HTTP/2 with HTTP/1 by the same client. Every stream is checked to have
//! brought its whole text and its result; the bench fails when one was cut, after it has printed everything.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "a benchmark")]

mod event_rate;
mod file_limit;
mod first_event;
mod form;
mod http2;
#[path = "../measuring/mod.rs"]
mod measuring;
mod memory;
mod openai;
mod provider;
mod reader;
mod requests;
mod script;
mod service;
mod turn;

use std::time::{Duration, Instant};

use measuring::machine;
use provider::Provider;
use service::Service;
use tokio::runtime::Builder;

/// How long the whole bench may take, the compiling of the tools not counted.
const AIM: Duration = Duration::from_secs(90);

fn main() {
    println!("machine: {}", machine::describe());
    println!("shared by the service, the provider and the load");
    file_limit::raise();
    // One thread, as the provider has: the load must not take both cores from the service.
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let provider = Provider::start();
    // A start that has to compile the tools would be measured as one that holds more memory.
    Service::variant_a_of_all(provider.address).into_iter().for_each(Service::stop);
    let start = Instant::now();
    let failures = [
        first_event::measure(&runtime, &provider),
        event_rate::measure(&runtime, &provider),
        memory::measure(&runtime, &provider),
        openai::measure(&runtime, &provider),
        http2::measure(&runtime),
    ];
    println!("\ntook {:.0} s (aim: at most {})", start.elapsed().as_secs_f64(), AIM.as_secs());
    assert_eq!(failures, [0; 5], "streams were cut, or answers were not as expected: see above");
}
