//! The client against servers on real sockets that speak HTTP by hand, one connection after the other.

use std::future::pending;
use std::io;

use futures::future::{BoxFuture, join};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::resolve::{LookupSlot, Resolve};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn client() -> Client {
    Client::new(None, Duration::from_secs(5), PoolBounds::default())
}

async fn listen() -> (TcpListener, Url) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/path?query#fragment", listener.local_addr().unwrap());
    (listener, Url::parse(&url).unwrap())
}

/// Answers one request, of one write, and says what it was.
async fn answer(stream: &mut TcpStream, answer: &str) -> String {
    let mut request = vec![0; 4096];
    let read = stream.read(&mut request).await.unwrap();
    stream.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8(request[..read].to_vec()).unwrap()
}

async fn post(client: &Client, url: &Url) {
    let mut response = client.send(Request::post(url.clone(), HeaderMap::new(), "body")).await.unwrap();
    let mut body = Vec::new();
    response.body_mut().read_into(&mut body, 2).await.unwrap();
    assert_eq!(body, b"ok");
}

#[tokio::test]
async fn requests_share_a_connection_until_the_server_closes_it() {
    let ((listener, url), client) = (listen().await, client());
    let serving = async {
        let (mut first, _) = listener.accept().await.unwrap();
        let asked = answer(&mut first, OK).await;
        answer(&mut first, OK).await;
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        answer(&mut second, OK).await;
        asked
    };
    let asking = async {
        for _ in 0..2 {
            post(&client, &url).await;
        }
        // The server's end is noticed by the connection's task.
        while client.dialer.waiting().1 > 0 {
            tokio::task::yield_now().await;
        }
        post(&client, &url).await;
    };
    let (asked, ()) = join(serving, asking).await;
    let host = format!("host: 127.0.0.1:{}\r\n", url.port().unwrap());
    let fields = ["accept: */*\r\n", "user-agent: agent-host/", "content-length: 4\r\n", &host];
    assert!(asked.starts_with("POST /path?query HTTP/1.1\r\n"), "{asked}");
    assert!(fields.iter().all(|field| asked.contains(field)), "{asked}");
}

#[tokio::test]
async fn a_request_goes_no_further_than_it_may_reach() {
    let (listener, url) = listen().await;
    let client = client();
    let named = Url::parse(&format!("http://localhost:{}/", url.port().unwrap())).unwrap();
    for url in [url, named] {
        let request = Request { reach: Reach::Public, ..Request::post(url, HeaderMap::new(), "") };
        let refused = client.send(request).await.unwrap_err();
        assert!(matches!(refused, Error::Connect(ConnectError::Forbidden(_))), "{refused:?}");
    }
    assert!(futures::poll!(Box::pin(listener.accept())).is_pending(), "nobody connected");
}

#[tokio::test]
async fn a_server_that_sends_interim_responses_without_end_is_given_up() {
    let ((listener, url), client) = (listen().await, client());
    let hint = format!("HTTP/1.1 103 Early Hints\r\nlink: {}\r\n\r\n", "x".repeat(1024));
    let serving = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        answer(&mut stream, &hint).await;
        while stream.write_all(hint.as_bytes()).await.is_ok() {}
    };
    let asking = client.send(Request::post(url, HeaderMap::new(), "body"));
    let (failed, ()) = join(asking, serving).await;
    let problem = failed.unwrap_err().problem();
    assert!(problem.contains("more came on the connection"), "{problem}");
}

/// Knows one name. Others never end, and keep their slots as threads in `getaddrinfo` would.
#[derive(Debug, Default)]
struct HangingResolver(Mutex<Vec<LookupSlot>>);

impl Resolve for HangingResolver {
    fn resolve(&self, host: String, slot: LookupSlot) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        if host == "answers.test" {
            return Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) });
        }
        self.0.lock().push(slot);
        Box::pin(pending())
    }
}

#[tokio::test(start_paused = true)]
async fn names_that_hang_cost_their_owner_a_share_of_the_lookups_and_nobody_else() {
    let resolver = Arc::new(HangingResolver::default());
    let dialer = Arc::new(Dialer::new(resolver, None, LOOKUPS, PoolBounds::NONE));
    let client = Client { dialer, owner: "".into(), connect: Duration::from_secs(5) };
    let (hanging, other) = (client.on_behalf_of("u1"), client.on_behalf_of("u2"));
    let [hangs, answers] = ["hangs", "answers"].map(|name| {
        let url = format!("http://{name}.test/");
        Url::parse(&url).unwrap()
    });
    for _ in 0..LOOKUPS.in_all {
        assert!(hanging.addresses(&hangs, Reach::Private).await.unwrap_err().is_timeout());
    }
    assert!(hanging.addresses(&answers, Reach::Private).await.unwrap_err().is_timeout());
    assert_eq!(other.addresses(&answers, Reach::Private).await.unwrap(), [IpAddr::from([127, 0, 0, 1])]);
}
