//! The exporter against collectors on a real socket. What it sends is looked at by the acceptance tests.

mod flush;

use agent_core::secret::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::config::{Headers, HttpUrl, Sampling};

/// A span without anything in it.
const SPAN: &[u8] = &[0x12, 0];

/// A collector that gives each export the next of these answers, on a connection of its own; to be driven
/// beside them. A body stands behind a bar.
async fn collector(answers: &[&str]) -> (HttpUrl, impl Future<Output = ()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = HttpUrl::parse(&format!("http://{}/v1/traces", listener.local_addr().unwrap())).unwrap();
    let serve = async move {
        for answer in answers {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 64 << 10];
            let read = connection.read(&mut request).await.unwrap();
            assert!(request[..read].starts_with(b"POST /v1/traces"));
            let (head, body) = answer.split_once('|').unwrap_or((answer, ""));
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
    };
    (url, serve)
}

fn config(endpoint: HttpUrl) -> config::Tracing {
    config::Tracing {
        endpoint,
        api_key: Secret::new("key"),
        project: "test".into(),
        headers: Headers::default(),
        timeout: Duration::from_secs(10),
        service_name: "test".into(),
        resource: Vec::new(),
        sampling: Sampling { ratio: 1.0, follows_parent: false },
        capture_content: false,
    }
}

/// A number that no clock can be moved by.
#[tokio::test]
async fn a_collector_that_wants_to_be_left_alone_for_ever_costs_its_spans_and_not_the_exporter() {
    let refusal = "429 Too Many Requests\r\nretry-after: 18446744073709551615";
    let answers = [refusal, "200 OK"];
    let (url, collector) = collector(&answers).await;
    let (queue, mut exporter) = new(&config(url)).unwrap();
    let export = async {
        for (exported, failed) in [(0, 1), (1, 1)] {
            queue.put(SPAN);
            assert!(exporter.export_next(Instant::now() + Duration::from_secs(10)).await);
            assert_eq!((exporter.counts.exported(), exporter.counts.failed()), (exported, failed));
        }
    };
    tokio::join!(collector, export);
}

#[tokio::test]
async fn a_collector_that_takes_a_part_of_each_batch_is_in_trouble_until_it_takes_a_whole_one() {
    // An `ExportTraceServiceResponse` of one span that was rejected, and "no".
    let part = "200 OK|\n\u{6}\u{8}\u{1}\u{12}\u{2}no";
    let answers = [part, part, "200 OK"];
    let (url, collector) = collector(&answers).await;
    let (queue, mut exporter) = new(&config(url)).unwrap();
    let export = async {
        for (exported, failed, outage) in [(1, 1, Some(1)), (2, 2, Some(2)), (4, 2, None)] {
            queue.put(SPAN);
            queue.put(SPAN);
            assert!(exporter.export_next(Instant::now() + Duration::from_secs(10)).await);
            assert_eq!((exporter.counts.exported(), exporter.counts.failed()), (exported, failed));
            assert_eq!(exporter.outage, outage, "it is said once");
        }
    };
    tokio::join!(collector, export);
}
