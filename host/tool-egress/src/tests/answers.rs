//! Requests that something else than the network answers, and what is recorded of those that go out.

use boxed_async::boxed_async;

use super::server::ok;
use super::*;

/// Gives one outcome after the other, and keeps what it was asked.
#[derive(Default)]
struct Canned {
    outcomes: Mutex<VecDeque<Result<HttpOutcome, String>>>,
    asked: Mutex<Vec<(String, HttpRequestRecord)>>,
}

#[boxed_async]
impl HttpAnswers for Canned {
    async fn answer(&self, call: CallKey<'_>, request: &HttpRequestRecord) -> Result<HttpOutcome, String> {
        let key = format!("{}/{}", call.run_id, call.call_id);
        self.asked.lock().push((key, request.clone()));
        self.outcomes.lock().pop_front().unwrap_or_else(|| Err("nothing is recorded".into()))
    }
}

/// Keeps what it is told.
#[derive(Default)]
struct RecordedExchanges(Mutex<Vec<(HttpRequestRecord, HttpOutcome)>>);

impl HttpRecorder for RecordedExchanges {
    fn record(&self, call: CallKey<'_>, request: HttpRequestRecord, outcome: HttpOutcome) {
        assert_eq!((call.run_id, call.call_id), ("run", "call"));
        self.0.lock().push((request, outcome));
    }
}

impl RecordedExchanges {
    fn take(&self) -> Vec<(HttpRequestRecord, HttpOutcome)> {
        std::mem::take(&mut self.0.lock())
    }
}

fn response(status: u16, headers: &[(&str, &str)], body: &[u8], cut: bool) -> HttpOutcome {
    let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    HttpOutcome::Response { status, headers, body: body.to_vec(), cut }
}

/// A world whose resolver has no answer: what resolves a name fails.
fn answered(outcomes: impl IntoIterator<Item = Result<HttpOutcome, String>>) -> (World, Arc<Canned>) {
    let canned =
        Arc::new(Canned { outcomes: Mutex::new(outcomes.into_iter().collect()), ..Canned::default() });
    (World::with_http(HttpMode::Answers(canned.clone())), canned)
}

fn recorded() -> (World, Arc<RecordedExchanges>) {
    let kept = Arc::new(RecordedExchanges::default());
    (World::with_http(HttpMode::Network { recorder: Some(kept.clone()) }), kept)
}

#[tokio::test]
async fn an_answer_comes_without_the_network_and_under_the_rules() {
    let (world, canned) = answered([Ok(response(201, &[("x-own", "1")], b"made", false))]);
    let call = world.call_with(vec![ascii_secret("key", header("x-key", ""))], RequestLimits::default());
    let request = Request::post("http://example.test:81/a?b=c").header("X-Mine", "2");
    let (head, body) =
        fetch(&call, request.body(Full::new(Bytes::from_static(b"ping"))).unwrap()).await.unwrap();
    assert_eq!((head.status.as_u16(), body.as_str()), (201, "made"));
    assert_eq!(head.headers["x-own"], "1");
    assert_eq!(world.resolver.asked(), Vec::<String>::new());

    let asked = canned.asked.lock().clone();
    let [(key, request)] = &*asked else { panic!("{asked:?}") };
    assert_eq!((key.as_str(), request.method.as_str()), ("run/call", "POST"));
    assert_eq!((request.url.as_str(), &request.body[..]), ("http://example.test:81/a?b=c", &b"ping"[..]));
    assert!(!request.body_cut);
    assert_eq!(request.headers, [("x-mine".to_owned(), "2".to_owned())], "nothing that the host adds");
    let receipt = call.receipt();
    assert_eq!(receipt.secrets, ["key"]);
    assert_eq!((receipt.hosts[0].requests, receipt.hosts[0].address), (1, None));
    assert!(receipt.hosts[0].sent_bytes > 4 && receipt.hosts[0].received_bytes > 4, "{receipt:?}");
}

#[tokio::test]
async fn without_an_answer_the_request_is_refused_in_its_words() {
    let (world, _) = answered([]);
    let call = world.call();
    let refused = fetch(&call, get("http://example.test/")).await.unwrap_err();
    assert_eq!(refused, EgressError::Unanswered("nothing is recorded".into()));
    let refusals = call.receipt().refusals;
    let text = "the request was not sent: nothing is recorded".into();
    assert_eq!(refusals, [Refusal { kind: ErrorKind::HttpRequestDenied, text }]);
}

#[tokio::test]
async fn rules_and_limits_hold_before_anything_is_asked() {
    let (world, canned) = answered((0..9).map(|_| Ok(response(200, &[], b"0123456789", false))));
    let few = RequestLimits { requests: 2, ..RequestLimits::default() };
    let grant = grant(false, vec![ascii_secret("key", header("x-key", ""))], few);
    let call = world.egress.call(grant, Instant::now() + Duration::from_secs(60));
    let private = fetch(&call, get("http://127.0.0.1/")).await.unwrap_err();
    assert!(
        matches!(private, EgressError::Unreachable { why: ConnectError::Forbidden(_), .. }),
        "{private:?}"
    );
    let leaking = post("http://example.test/", "a ascii-s3cret/v+lue b");
    let leaking = fetch(&call, leaking).await.unwrap_err();
    assert!(matches!(leaking, EgressError::SecretInRequest { place: Place::Body, .. }), "{leaking:?}");
    let third = fetch(&call, get("http://example.test/")).await.unwrap_err();
    assert_eq!(third, EgressError::TooManyRequests(2));
    assert!(canned.asked.lock().is_empty());

    let small = RequestLimits { bytes: 100, ..RequestLimits::default() };
    let (world, _) = answered([Ok(response(200, &[], &[b'a'; 200], false))]);
    let spent = fetch(&world.call_with(vec![], small), get("http://example.test/")).await.unwrap_err();
    assert_eq!(spent, EgressError::BytesSpent(100));
}

#[tokio::test]
async fn an_answer_holds_no_secret_and_a_cut_one_ends_in_an_error() {
    let told = b"your key is ascii-s3cret/v+lue".as_slice();
    let (world, _) = answered([
        Ok(response(200, &[("content-length", "30")], told, false)),
        Ok(response(200, &[("content-length", "30")], b"half", true)),
    ]);
    let call = world.call_with(vec![ascii_secret("key", header("x-key", ""))], RequestLimits::default());
    let (head, body) = fetch(&call, get("http://example.test/")).await.unwrap();
    assert_eq!(body, "your key is [secret key]");
    assert!(!head.headers.contains_key("content-length"));
    let cut = fetch(&call, get("http://example.test/")).await.unwrap_err();
    assert_eq!(cut, EgressError::Incomplete { host: "example.test".into() });
}

#[tokio::test]
async fn a_failure_has_the_kind_it_had() {
    let (world, _) = answered([
        Ok(HttpOutcome::Failed("connection-refused".into())),
        Ok(HttpOutcome::Failed("destination-ip-prohibited".into())),
        Ok(HttpOutcome::Failed("no such error".into())),
        Ok(response(99, &[], b"", false)),
    ]);
    let call = world.call();
    let mut kinds = vec![];
    for _ in 0..4 {
        kinds.push(fetch(&call, get("http://example.test/")).await.unwrap_err().kind());
    }
    use ErrorKind::{ConnectionRefused, DestinationIpProhibited, InternalError};
    assert_eq!(kinds, [ConnectionRefused, DestinationIpProhibited, InternalError, InternalError]);
    assert_eq!(call.receipt().hosts[0].failures, 4);
}

#[tokio::test]
async fn what_passes_is_recorded_without_credentials() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 30\r\nset-cookie: a=b\r\nx-own: 1\r\n\r\n\
                  your key is ascii-s3cret/v+lue";
    let mut server = Server::answering(move |_| answer.into()).await;
    let (world, kept) = recorded();
    let secrets = vec![
        ascii_secret("key", header("x-key", "")),
        Secret {
            name: "token".into(),
            value: Some(value("other-s3cret-v4lue")),
            placement: Placement::Query { name: "token".into() },
        },
    ];
    let call = world.call_with(secrets, RequestLimits::default());
    let request =
        Request::post(server.url("/a?b=c")).header("authorization", "Basic mine").header("x-mine", "2");
    let request = request.header("content-length", "4").body(Full::new(Bytes::from_static(b"ping"))).unwrap();
    let (_, body) = fetch(&call, request).await.unwrap();
    assert_eq!(server.next().await.line(), "POST /a?b=c&token=other-s3cret-v4lue HTTP/1.1");

    let kept = kept.take();
    let [(request, outcome)] = &*kept else { panic!("{kept:?}") };
    assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", &*server.url("/a?b=c")));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(request.headers, [pair("x-mine", "2"), pair("content-length", "4")]);
    assert_eq!((&request.body[..], request.body_cut), (&b"ping"[..], false));
    let HttpOutcome::Response { status, headers, body: recorded, cut } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((*status, &headers[..], *cut), (200, &[pair("x-own", "1")][..], false));
    assert_eq!(
        (String::from_utf8_lossy(recorded).as_ref(), body.as_str()),
        (body.as_str(), "your key is [secret key]")
    );
}

/// As the bodies of `wasi:http` are: nobody knows before it is asked for that there is nothing in it.
#[tokio::test]
async fn a_body_that_turns_out_to_be_empty_is_recorded_whole() {
    let server = Server::answering(|_| ok("hello")).await;
    let (world, kept) = recorded();
    let nothing = futures::stream::empty::<Result<http_body::Frame<Bytes>, std::convert::Infallible>>();
    let body = http_body_util::StreamBody::new(nothing);
    fetch(&world.call(), Request::get(server.url("/")).body(body).unwrap()).await.unwrap();
    let kept = kept.take();
    let [(request, _)] = &*kept else { panic!("{kept:?}") };
    assert_eq!((request.body.len(), request.body_cut), (0, false));
}

#[tokio::test]
async fn a_record_is_bounded_and_says_that_it_was_cut() {
    let long = "a".repeat(MOST_BODY_BYTES + 1);
    let server = Server::answering({
        let long = long.clone();
        move |_| ok(&long)
    })
    .await;
    let (world, kept) = recorded();
    let call = world.call();
    let (_, body) = fetch(&call, post(server.url("/"), long.clone())).await.unwrap();
    assert_eq!(body.len(), long.len(), "what the guest gets is not cut");
    let kept = kept.take();
    let [(request, HttpOutcome::Response { body, cut, .. })] = &*kept else { panic!("{kept:?}") };
    assert_eq!((request.body.len(), request.body_cut), (MOST_BODY_BYTES, true));
    assert_eq!((body.len(), *cut), (MOST_BODY_BYTES, true));
}

#[tokio::test]
async fn failures_are_recorded_by_their_kind() {
    let (world, kept) = recorded();
    let call = world.call();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    fetch(&call, get(format!("http://example.test:{closed}/"))).await.unwrap_err();
    // Refused before it was admitted: the rules refuse it again.
    fetch(&call, get("ftp://example.test/")).await.unwrap_err();
    let kept = kept.take();
    let [(_, outcome)] = &*kept else { panic!("{kept:?}") };
    assert_eq!(*outcome, HttpOutcome::Failed("connection-refused".into()));
}

#[test]
fn every_kind_has_the_name_it_is_recorded_by() {
    for name in ["dns-timeout", "http-request-denied", "http-response-incomplete", "internal-error"] {
        assert_eq!(ErrorKind::from_name(name).unwrap().to_string(), name);
    }
    assert_eq!(ErrorKind::from_name("Internal-Error"), None);
}
