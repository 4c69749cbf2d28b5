//! One command to a Redis server, over a connection of its own.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// The answer as a text: a status, a number, a string; an error begins with `-`. A server that does not
/// answer says nothing.
pub(crate) async fn ask(address: SocketAddr, words: &[&str]) -> String {
    try_ask(address, words).await.unwrap_or_default()
}

async fn try_ask(address: SocketAddr, words: &[&str]) -> std::io::Result<String> {
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream.write_all(command.as_bytes()).await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let line = line.trim_end();
    match line.split_at_checked(1) {
        Some(("$", length)) => {
            let mut text = vec![0; length.parse().unwrap_or(0)];
            stream.read_exact(&mut text).await?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        Some(("+" | ":", answer)) => Ok(answer.to_owned()),
        _ => Ok(line.to_owned()),
    }
}
