//! HTTP/2 with prior knowledge: what it serves as HTTP/1 does, and what only it has to be bounded for.

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;

/// A client's connection. Dropping it closes it.
struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    _driving: Tasks,
}

impl Http2 {
    async fn connect(bench: &Bench) -> Self {
        let stream = TcpStream::connect(bench.address).await.unwrap();
        let mut builder = Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(64 << 10);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        let driving = Tasks::new();
        driving.spawn("client", async {
            let _ended = connection.await;
        });
        Self { sender, _driving: driving }
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: Vec<u8>,
    ) -> impl Future<Output = hyper::Result<Answer>> + use<> {
        let request = Request::builder().method(method).uri(format!("http://test{path}"));
        let (request, mut sender) = (request.body(Full::from(body)).unwrap(), self.sender.clone());
        async move {
            sender.ready().await?;
            sender.send_request(request).await
        }
    }

    async fn get(&self, path: &str) -> hyper::Result<Vec<u8>> {
        Ok(self.ask("GET", path, vec![]).await?.into_body().collect().await?.to_bytes().to_vec())
    }
}

type Answer = hyper::Response<Incoming>;

#[tokio::test]
async fn requests_share_a_connection_and_are_answered_side_by_side() {
    let outcome = with_service(times(), async |bench| {
        let client = Http2::connect(&bench).await;
        let meanwhile = async {
            bench.asked.notified().await;
            assert_eq!(client.get("/hello").await.unwrap(), b"hello");
            assert_eq!(client.get("/host").await.unwrap(), b"test", "as in a header of HTTP/1");
            assert_eq!(client.get("/huge").await.unwrap().len(), 64 << 20);
            assert_eq!(bench.count("agent_http_connections"), 1.0);
            bench.answer.notify_one();
        };
        let (slow, ()) = join(client.get("/slow"), meanwhile).await;
        assert_eq!(slow.unwrap(), b"slow");
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn a_body_that_nobody_reads_ends_its_stream_and_not_the_connection() {
    let outcome = with_service(times(), async |bench| {
        let client = Http2::connect(&bench).await;
        for _ in 0..3 {
            // More than any window takes.
            let answer = client.ask("POST", "/unread", vec![b'x'; 4 << 20]).await.unwrap();
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
            assert!(!answer.headers().contains_key("connection"));
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "who are you?");
        }
        let answer = client.ask("POST", "/read", b"read".to_vec()).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "read");
        assert_eq!(bench.count("agent_http_connections"), 1.0);
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn at_a_stop_what_is_under_way_is_answered_and_the_client_is_told_to_go() {
    let outcome = with_service(times(), async |bench| {
        let client = Http2::connect(&bench).await;
        let stop = async {
            bench.asked.notified().await;
            bench.signal(Signal::Terminate);
            bench.wait_until_refused().await;
            bench.answer.notify_one();
        };
        let (slow, ()) = join(client.get("/slow"), stop).await;
        assert_eq!(slow.unwrap(), b"slow");
        // The connection ends although the client keeps it.
        while client.get("/hello").await.is_ok() {}
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn a_client_that_asks_for_nothing_more_is_let_go() {
    let times = Timeouts { next_request: Duration::from_millis(50), ..times() };
    let outcome = with_service(times, async |bench| {
        let client = Http2::connect(&bench).await;
        assert_eq!(client.get("/hello").await.unwrap(), b"hello");
        while bench.count("agent_http_connections") > 0.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(client.get("/hello").await.is_err());
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_an_answer_loses_it_and_keeps_its_others() {
    let times = Timeouts { unread: Duration::from_millis(300), ..times() };
    let outcome = with_service(times, async |bench| {
        let client = Http2::connect(&bench).await;
        let huge = client.ask("GET", "/huge", vec![]).await.unwrap();
        // The connection is read and answers pings; only this answer is not taken.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let taken = huge.into_body().collect().await;
        assert!(taken.is_err(), "the stream was reset");
        assert_eq!(client.get("/hello").await.unwrap(), b"hello");
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [head.as_slice(), payload].concat()
}

/// Reads frames up to the one of that kind with these flags, and gives their kinds.
async fn kinds_until(client: &mut Client, last: (u8, u8)) -> Vec<u8> {
    let mut kinds = vec![];
    loop {
        let mut head = [0; 9];
        client.0.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        client.0.read_exact(&mut payload).await.unwrap();
        kinds.push(head[3]);
        if (head[3], head[4]) == last {
            return kinds;
        }
    }
}

#[tokio::test]
async fn a_body_that_comes_behind_its_answer_is_read_away_and_its_stream_is_not_reset() {
    let outcome = with_service(times(), async |bench| {
        let mut client = bench.connect().await;
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        client.send(frame(4, 0, 0, &[])).await;
        // `POST http://test/unread`, without any indexing, and the end of the answer.
        client.send(frame(1, 0b100, 1, b"\x83\x86\x04\x07/unread\x01\x04test")).await;
        let mut kinds = kinds_until(&mut client, (0, 1)).await;
        // The body, and a ping that is answered behind whatever is said to it.
        client.send(frame(0, 1, 1, b"the body")).await;
        client.send(frame(6, 0, 0, &[0; 8])).await;
        kinds.extend(kinds_until(&mut client, (6, 1)).await);
        assert!(!kinds.contains(&3), "it was reset: {kinds:?}");
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

/// Opens streams and resets each at once (CVE-2023-44487), `at_once` of them between two looks of the
/// service.
async fn flood(bench: &Bench, at_once: u32) {
    const MOST: u32 = 20_000;
    // `GET http://test/slow`, without any indexing.
    let head = b"\x82\x86\x04\x05/slow\x01\x04test";
    let mut client = bench.connect().await;
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    client.send(frame(4, 0, 0, &[])).await;
    let mut opened = 0;
    while opened < MOST {
        let stream = 2 * opened + 1;
        let (open, reset) = (frame(1, 0b101, stream, head), frame(3, 0, stream, &8_u32.to_be_bytes()));
        if client.0.write_all(&[open, reset].concat()).await.is_err() {
            break;
        }
        opened += 1;
        if opened.is_multiple_of(at_once) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert!(opened < MOST, "it was never cut off");
}

#[tokio::test]
async fn a_client_that_resets_what_it_opens_is_cut_off_and_others_are_served() {
    let outcome = with_service(times(), async |bench| {
        for at_once in [1, 200] {
            flood(&bench, at_once).await;
            assert_eq!(bench.connect().await.ask_for("/hello").await, "hello");
        }
        assert_eq!(Http2::connect(&bench).await.get("/hello").await.unwrap(), b"hello");
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}
