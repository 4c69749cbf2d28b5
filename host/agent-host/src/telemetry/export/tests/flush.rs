//! Flushing, and beginning anew. What is exported, and what a collector in trouble costs, is for the
//! acceptance tests.

use axum::Router;
use axum::routing::post;
use futures::FutureExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::super::queue::{BATCH, LINGER};
use super::super::*;
use super::SPAN;
use crate::config::Config;

/// A queue whose spans are exported, to a collector that answers each post as soon as it has a permit for
/// it.
struct Setting {
    queue: Arc<Queue>,
    exporter: Exporter,
    /// Told of every post.
    posted: Receiver<()>,
    permits: Arc<tokio::sync::Semaphore>,
    _serving: JoinSet<()>,
}

async fn setting() -> Setting {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let permits = Arc::new(tokio::sync::Semaphore::new(0));
    let (tell, posted) = channel(100);
    let router = {
        let permits = permits.clone();
        let collect = async move || {
            tell.try_send(()).unwrap();
            permits.acquire().await.unwrap().forget();
        };
        Router::new().route("/v1/traces", post(collect))
    };
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
    let vars =
        [("LLM_API_KEY", "key"), ("TRACING_API_KEY", "key"), ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)];
    let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = Config::from_vars(&std::collections::BTreeMap::from(vars)).unwrap();
    let (queue, exporter) = new(config.observe.tracing.as_ref().unwrap()).unwrap();
    Setting { queue, exporter, posted, permits, _serving: serving }
}

impl Setting {
    fn record(&self, spans: usize) {
        for _ in 0..spans {
            self.queue.put(SPAN);
        }
    }
}

#[tokio::test]
async fn a_flush_ends_when_all_that_waited_is_exported() {
    let mut setting = setting().await;
    setting.permits.add_permits(10);
    // More than a batch, and no batch waits for more.
    setting.record(BATCH + 1);
    let (counts, flusher) = (setting.exporter.counts(), setting.exporter.flusher());
    let stopping = CancellationToken::new();
    let flush = async {
        let begun = Instant::now();
        flusher.flush().await;
        assert_eq!(counts.exported(), BATCH as u64 + 1);
        assert!(begun.elapsed() < LINGER, "it waited for others");
        // With nothing to export there is nothing to wait for.
        flusher.flush().await;
        stopping.cancel();
    };
    tokio::join!(setting.exporter.run(stopping.clone()), flush);
    assert_eq!((counts.exported(), counts.failed()), (BATCH as u64 + 1, 0));
}

#[tokio::test]
async fn who_gives_up_a_flush_does_not_keep_others_from_it() {
    let mut setting = setting().await;
    setting.record(1);
    let (counts, flusher) = (setting.exporter.counts(), setting.exporter.flusher());
    let stopping = CancellationToken::new();
    let flush = async {
        {
            let mut impatient = Box::pin(flusher.flush());
            assert!((&mut impatient).now_or_never().is_none());
            setting.posted.recv().await.unwrap();
        }
        setting.permits.add_permits(1);
        flusher.flush().await;
        assert_eq!(counts.exported(), 1);
        stopping.cancel();
    };
    tokio::join!(setting.exporter.run(stopping.clone()), flush);
}

#[tokio::test]
async fn an_exporter_that_is_begun_anew_counts_what_it_lost_and_goes_on() {
    let mut setting = setting().await;
    setting.record(2);
    let (counts, flusher) = (setting.exporter.counts(), setting.exporter.flusher());
    let stopping = CancellationToken::new();
    // It breaks off while the collector has not answered.
    tokio::select! {
        biased;
        _ = setting.posted.recv() => {}
        ((), ()) = futures::future::join(setting.exporter.run(stopping.clone()), flusher.flush()) => {}
    }
    assert_eq!((counts.exported(), counts.failed()), (0, 0));
    setting.permits.add_permits(10);
    setting.record(3);
    let flush = async {
        flusher.flush().await;
        assert_eq!((counts.exported(), counts.failed()), (3, 2));
        stopping.cancel();
    };
    tokio::join!(setting.exporter.run(stopping.clone()), flush);
}
