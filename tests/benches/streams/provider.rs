//! A provider that streams as its [`Script`] says, on a thread of its own. It speaks to its sockets itself,
//! so that the time in its first delta is that of the write and nothing of it is a framework's.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use crate::measuring::provider::SAYS;
use crate::script::{Script, WORD};

/// A thousand connections may be made at once. With fewer places some would be made again after a second.
const BACKLOG: u32 = 4_096;

/// What the times in first deltas count from.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The provider. It serves until the process ends.
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    released: watch::Sender<bool>,
}

impl Provider {
    pub(crate) fn start() -> Self {
        LazyLock::force(&EPOCH);
        let (released, release) = watch::channel(false);
        let (bound, address) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
                let listener = socket.listen(BACKLOG).unwrap();
                bound.send(listener.local_addr().unwrap()).unwrap();
                accept(&listener, &release).await;
            });
        });
        Self { address: address.recv().unwrap(), released }
    }

    /// Lets all streams go on that are held, and those to come.
    pub(crate) fn release(&self) {
        self.released.send(true).unwrap();
    }
}

/// How long ago that was, the text of a first delta.
pub(crate) fn since(stamp: &[u8]) -> Option<Duration> {
    let nanoseconds = std::str::from_utf8(stamp).ok()?.trim_end().parse().ok()?;
    EPOCH.elapsed().checked_sub(Duration::from_nanos(nanoseconds))
}

async fn accept(listener: &TcpListener, release: &watch::Receiver<bool>) {
    let mut serving = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        // A connection ends when its client has enough of it, in whatever way.
        let release = release.clone();
        serving.spawn(async move { drop(serve(socket, release).await) });
        while serving.try_join_next().is_some() {}
    }
}

async fn serve(mut socket: TcpStream, mut release: watch::Receiver<bool>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(32 << 10);
    loop {
        let body = read_request(&mut socket, &mut buffer).await?;
        if body.contains("\"stream\":true") {
            let script = Script::find(&body).expect("whoever wants a stream says which");
            stream(&mut socket, script, &mut release).await?;
        } else {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                SAYS.len()
            );
            socket.write_all(&[head.as_bytes(), SAYS.as_bytes()].concat()).await?;
        }
    }
}

/// The body of the next request.
async fn read_request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<String> {
    loop {
        if let Some(head) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let body = head + 4;
            let end = body + content_length(&buffer[..head]);
            while buffer.len() < end {
                receive(socket, buffer).await?;
            }
            let text = String::from_utf8(buffer[body..end].to_vec()).unwrap();
            buffer.drain(..end);
            return Ok(text);
        }
        receive(socket, buffer).await?;
    }
}

async fn receive(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.reserve(8 << 10);
    match socket.read_buf(buffer).await? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn content_length(head: &[u8]) -> usize {
    let head = std::str::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    length.unwrap_or_default()
}

async fn stream(
    socket: &mut TcpStream,
    script: Script,
    release: &mut watch::Receiver<bool>,
) -> io::Result<()> {
    let stamp = format!("{:020} ", EPOCH.elapsed().as_nanos());
    socket.write_all(format!("{HEAD}{}", chunk(&delta(&stamp))).as_bytes()).await?;
    match script.pause {
        Some(pause) if pause.is_zero() => {}
        Some(pause) => sleep(pause).await,
        None => drop(release.wait_for(|released| *released).await),
    }
    let word = chunk(&delta(WORD));
    for _ in 1..script.deltas {
        socket.write_all(word.as_bytes()).await?;
        // A write of its own for each delta, and the other streams' turn.
        yield_now().await;
    }
    socket.write_all(format!("{}0\r\n\r\n", chunk(END)).as_bytes()).await
}

fn delta(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

const END: &str = concat!(
    r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"#,
    r#""usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}"#,
    "\n\ndata: [DONE]\n\n"
);
