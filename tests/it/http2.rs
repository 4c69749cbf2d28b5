//! HTTP/2 with prior knowledge, as proxies and meshes speak it with what is behind them. Its bounds are
//! tested where the socket is served (`host/agent-host/src/serve/tests/http2.rs`).

use std::pin::pin;

use acceptance::{Model, Service};
use bytes::Bytes;
use futures::future::{Either, join, select};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::handshake;
use hyper::{Method, Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;

#[tokio::test]
async fn runs_are_streamed_and_answered_on_one_connection() {
    let model = Model::openai().await;
    model.says("hello").says("hello");
    let service = Service::variant_a().model(&model).start().await;
    let stream = TcpStream::connect(service.address()).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let uri = format!("http://{}/agent/invoke", service.address());
    let ask = async |accept: &str| {
        let request = Request::builder()
            .method(Method::POST)
            .uri(&uri)
            .header("accept", accept)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from_static(br#"{"input":"hi"}"#)))
            .unwrap();
        let answer = sender.clone().send_request(request).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
        String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    };
    let (streamed, plain) = {
        let connection = pin!(connection);
        let asking = pin!(join(ask("text/event-stream"), ask("application/json")));
        let Either::Left((answers, _)) = select(asking, connection).await else {
            panic!("the connection ended")
        };
        answers
    };
    let names: Vec<_> = streamed.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, ["run.started", "model.delta", "model.replied", "run.ended"], "{streamed}");
    let plain: Value = serde_json::from_str(&plain).unwrap();
    assert_eq!(plain["result"]["output"], "hello");
    service.stop().await;
}
