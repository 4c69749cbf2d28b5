//! What clients send to a Redis server, as the server itself tells it (`MONITOR`).

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;

use crate::waiting::within;

/// Listens to a server.
#[derive(Debug)]
pub struct Monitor {
    address: SocketAddr,
    lines: Lines<BufReader<TcpStream>>,
    fences: u32,
}

/// Commands, in their order.
#[derive(Debug, Default)]
pub struct Commands {
    /// The names of what clients sent.
    pub of_clients: Vec<String>,
    /// The commands of clients with all that stands behind the names, each word in quotes.
    pub of_clients_in_full: Vec<String>,
    /// The names of what their scripts did.
    pub of_scripts: Vec<String>,
}

impl Monitor {
    pub(crate) async fn of(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("a connection to Redis");
        stream.write_all(b"MONITOR\r\n").await.expect("a word to Redis");
        let mut lines = BufReader::new(stream).lines();
        let answer = within("Redis to be monitored", lines.next_line()).await.expect("an answer");
        assert_eq!(answer.as_deref(), Some("+OK"));
        Self { address, lines, fences: 0 }
    }

    /// What has happened since this was asked last.
    pub async fn commands(&mut self) -> Commands {
        self.fences += 1;
        let fence = format!("fence-{}-{}", std::process::id(), self.fences);
        let mut other = TcpStream::connect(self.address).await.expect("a connection to Redis");
        other.write_all(format!("ECHO {fence}\r\n").as_bytes()).await.expect("a word to Redis");
        let mut commands = Commands::default();
        loop {
            let line = within("Redis to tell of a command", self.lines.next_line()).await.expect("a line");
            let line = line.expect("Redis goes on");
            if line.contains(&fence) {
                return commands;
            }
            // `+1700000000.123456 [0 127.0.0.1:50000] "GET" "key"`, and `[0 lua]` for what a script does.
            let (head, words) = line.split_once("] ").expect("a line of MONITOR");
            let name = words.split('"').nth(1).unwrap_or_default().to_uppercase();
            if head.ends_with(" lua") {
                commands.of_scripts.push(name);
            } else {
                commands.of_clients.push(name);
                commands.of_clients_in_full.push(words.to_owned());
            }
        }
    }
}
