//! What a stream costs that is open and brings nothing: resident memory with a thousand of them, without, and
//! with their connections alone.

use std::io;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::form;
use crate::measuring::subject::Subject;
use crate::provider::Provider;
use crate::reader::{Reader, Seen};
use crate::requests;
use crate::script::Script;
use crate::service::Service;
use crate::turn::{self, PATIENCE, Plan, Target};

/// How many streams are open.
const STREAMS: usize = 1_000;

/// What each is to cost at most, in KiB.
const AIM: f64 = 32.0;

/// How many begin at a time.
const BEGINNING: usize = 20;

/// Streams that are read before anything is measured, and deltas of each: what the first requests leave
/// behind is no stream's.
const WARM_UP: (usize, usize) = (32, 5);

/// Until what has ended is gone.
const SETTLED: Duration = Duration::from_millis(700);

/// A stream with its reader.
type Open = (Reader, Seen);

/// Measures and prints. Answers how many streams were cut.
pub(crate) fn measure(runtime: &Runtime, provider: &Provider) -> usize {
    // One that has held nothing yet: what an allocator keeps for later would hide the cost.
    let measure_one = |subject: &Subject| {
        let service = Service::variant_a(subject, provider.address);
        let measured = runtime.block_on(async { timeout(PATIENCE, measure_in(&service, provider)).await });
        measured.expect("streams begin and end in time")
    };
    Subject::all().iter().map(measure_one).sum()
}

async fn measure_in(service: &Service, provider: &Provider) -> usize {
    let target = Target::runs(service);
    let (streams, deltas) = WARM_UP;
    let warm_up = Script { deltas, pause: Some(Duration::ZERO) };
    let warmed = turn::run(target, Plan { streams, script: warm_up, turn: Duration::ZERO }).await;
    let resident = async || {
        sleep(SETTLED).await;
        service.running.resident_mib()
    };
    let without = resident().await;
    let mut readers = Vec::new();
    for _ in 0..STREAMS {
        let mut reader = Reader::open(service.address).await;
        reader.ask(requests::LIVENESS).await.unwrap();
        readers.push(reader);
    }
    let connected = resident().await;
    let script = Script { deltas, pause: None };
    let open = begin_all(readers, target, script).await;
    let are_open = open.iter().filter(|(_, seen)| seen.deltas == 1 && !seen.has_result).count();
    let with = resident().await;
    provider.release();
    let cut = STREAMS - finish_all(open, script).await;
    let after = resident().await;
    let kib_each = |mib: f64| mib * 1024.0 / STREAMS as f64;
    let each = kib_each(with - without);
    println!(
        "\nmemory of a stream of {} that is open, has had its first delta and waits for the next one",
        service.name
    );
    println!(
        "  {without:.1} MiB resident without streams, {connected:.1} with {STREAMS} idle connections, {with:.1} with {are_open} streams open on them, {after:.1} after their ends"
    );
    println!(
        "  each: {each:.1} KiB (aim: at most {AIM:.0}{}), the connection to the client {:.1} of it; the one to the provider is in it too; {cut} cut",
        if each > AIM { ", missed" } else { "" },
        kib_each(connected - without)
    );
    cut.max(STREAMS - are_open) + warmed.cut
}

/// Begins a stream on each connection, and waits until all have had their first delta. Those that cannot are
/// missing. A few begin at a time: what a crowd of beginnings needs for a moment is kept by the allocator and
/// is no stream's.
async fn begin_all(readers: Vec<Reader>, target: Target, script: Script) -> Vec<Open> {
    let (mut beginning, mut open) = (JoinSet::new(), Vec::new());
    for (number, mut reader) in readers.into_iter().enumerate() {
        if beginning.len() == BEGINNING {
            open.extend(take_begun(&mut beginning).await);
        }
        let request = (target.request)(&script.text(), number);
        beginning.spawn(async move {
            let begun = reader.begin(&request, target.form).await;
            begun.map(|seen| (reader, seen))
        });
    }
    while !beginning.is_empty() {
        open.extend(take_begun(&mut beginning).await);
    }
    open
}

async fn take_begun(beginning: &mut JoinSet<io::Result<Open>>) -> Option<Open> {
    let begun = beginning.join_next().await?.unwrap();
    begun.inspect_err(|error| println!("  a stream could not be begun: {error}")).ok()
}

/// How many have ended whole.
async fn finish_all(open: Vec<Open>, script: Script) -> usize {
    let mut ending = JoinSet::new();
    for (mut reader, mut seen) in open {
        ending.spawn(async move {
            let read = reader.finish(&mut seen, &form::RUN).await;
            read.is_ok() && seen.is_whole(script)
        });
    }
    let mut whole = 0;
    while let Some(is_whole) = ending.join_next().await {
        whole += usize::from(is_whole.unwrap());
    }
    whole
}
