//! WebSockets of `GET /v1/responses`, over a connection in memory: hyper, the handshake, the frames, and the
//! messages.

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::served::{Served, serve};

/// Most bytes that a client is sent.
const MOST_ANSWER_BYTES: u64 = 16 << 20;

/// Before this byte, the rest of an input is not messages but frames as they are written.
const RAW: u8 = b'!';

/// A line is a message. The connection ends by itself once its client has said everything.
pub(crate) fn messages(input: &[u8]) {
    let frames = match input.split_first() {
        Some((&RAW, frames)) => frames.to_vec(),
        _ => input.split(|byte| *byte == b'\n').flat_map(text_frame).collect(),
    };
    serve(|served| async move { converse(&served, &frames).await });
}

async fn converse(served: &Served, frames: &[u8]) {
    let (mut client, server) = duplex(64 << 10);
    let service = TowerToHyperService::new(served.router.clone());
    let connection = http1::Builder::new().serve_connection(TokioIo::new(server), service).with_upgrades();
    let handshake = format!(
        "GET /v1/responses HTTP/1.1\r\nhost: fuzz\r\nauthorization: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        served.user
    );
    let talk = async {
        // A client that has left before it is answered has no WebSocket.
        let _closed = client.write_all(handshake.as_bytes()).await;
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            match client.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_closed) => break,
            }
        }
        let (reads, mut writes) = tokio::io::split(&mut client);
        let said = async {
            // A server that has closed takes no more.
            let _closed = writes.write_all(frames).await;
            let _closed = writes.shutdown().await;
        };
        let heard = async {
            let mut heard = vec![];
            let _broken = reads.take(MOST_ANSWER_BYTES).read_to_end(&mut heard).await;
            heard
        };
        (head, tokio::join!(said, heard).1)
    };
    let (served, (head, heard)) = tokio::join!(connection, talk);
    let head = String::from_utf8_lossy(&head);
    assert!(head.starts_with("HTTP/1.1 101"), "the handshake is answered: {served:?} {head}");
    assert!((heard.len() as u64) < MOST_ANSWER_BYTES, "it says an end");
}

/// A text of a client as a frame (RFC 6455, section 5.2), masked with zeros.
fn text_frame(text: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match (u8::try_from(text.len()), u16::try_from(text.len())) {
        (Ok(short), _) if short < 126 => frame.push(0x80 | short),
        (_, Ok(length)) => {
            frame.push(0x80 | 126);
            frame.extend(length.to_be_bytes());
        }
        (_, Err(_)) => {
            frame.push(0x80 | 127);
            frame.extend((text.len() as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text);
    frame
}
