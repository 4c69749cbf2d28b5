//! Where one request ends and the next one begins: nobody may be able to hide a request in another one's
//! body.
//!
//! Every case is followed on its connection by a request of its own, as a proxy would send that of another
//! client. Either it gets its answer, or the connection was closed and nothing behind the case was taken for
//! a request.

use acceptance::{Model, Service, Socket};

/// What may be smuggled: it is never to be answered.
const SMUGGLED: &str = "DELETE /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The next request on the connection, in the name of somebody else. Its path tells its answer in the log.
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// The last chunk, and what stands behind it.
const LAST: &str = "0\r\n\r\n@";

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

const POST: &str = "POST /agent/invoke HTTP/1.1\r\nHost: localhost\r\n";

/// What a case has to come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// One answer with that status, and then the next request is answered.
    Open(&'static str),
    /// One answer with that status, and the connection is closed.
    Closed(&'static str),
}

use Ends::{Closed, Open};

/// Header lines and what stands behind the empty line; `@` stands for what must not be answered.
const CASES: [(&str, &str, &str, Ends); 50] = [
    // Both lengths: the chunks count, and the connection ends (RFC 9112, section 6.3).
    ("length and chunked", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", LAST, Closed("400")),
    ("chunked and length", "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n", LAST, Closed("400")),
    ("length 0 and chunked", "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", LAST, Closed("400")),
    (
        "a bad length beside chunks",
        "Transfer-Encoding: chunked\r\nContent-Length: x\r\n",
        LAST,
        Closed("400"),
    ),
    (
        "a long length beside chunks",
        "Content-Length: 9999\r\nTransfer-Encoding: chunked\r\n",
        LAST,
        Closed("400"),
    ),
    // Lengths.
    ("two lengths", "Content-Length: 2\r\nContent-Length: 50\r\n", "{}@", Closed("400")),
    ("two lengths, the longer first", "Content-Length: 50\r\nContent-Length: 2\r\n", "{}@", Closed("400")),
    ("one length twice", "Content-Length: 2\r\nContent-Length: 2\r\n", "{}", Open("400")),
    ("a list of lengths", "Content-Length: 2, 2\r\n", "{}@", Closed("400")),
    ("a list of different lengths", "Content-Length: 2, 50\r\n", "{}@", Closed("400")),
    ("a length with a plus", "Content-Length: +2\r\n", "{}@", Closed("400")),
    ("a negative length", "Content-Length: -2\r\n", "{}@", Closed("400")),
    ("a hexadecimal length", "Content-Length: 0x2\r\n", "{}@", Closed("400")),
    ("a length with a fraction", "Content-Length: 2.0\r\n", "{}@", Closed("400")),
    ("a length with a blank in it", "Content-Length: 2 2\r\n", "{}@", Closed("400")),
    ("an empty length", "Content-Length:\r\n", "{}@", Closed("400")),
    ("a length beyond all numbers", "Content-Length: 18446744073709551618\r\n", "{}@", Closed("400")),
    ("a length with zeros before it", "Content-Length: 0002\r\n", "{}", Open("400")),
    ("a length in blanks", "Content-Length:   2  \r\n", "{}", Open("400")),
    ("a blank before the colon", "Content-Length : 2\r\n", "{}@", Closed("400")),
    ("a tab before the colon", "Content-Length\t: 2\r\n", "{}@", Closed("400")),
    ("a length in underscores", "Content_Length: 100\r\n", "", Open("400")),
    // Transfer codings.
    ("a coding before chunks", "Transfer-Encoding: gzip, chunked\r\n", LAST, Closed("501")),
    ("a coding after chunks", "Transfer-Encoding: chunked, gzip\r\n", LAST, Closed("400")),
    ("chunks twice", "Transfer-Encoding: chunked, chunked\r\n", LAST, Closed("501")),
    (
        "chunks on two lines",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        LAST,
        Closed("501"),
    ),
    (
        "no chunks on the second line",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        LAST,
        Closed("400"),
    ),
    ("identity", "Transfer-Encoding: identity\r\n", "{}@", Closed("400")),
    ("an unknown coding", "Transfer-Encoding: xchunked\r\n", LAST, Closed("400")),
    ("a quoted coding", "Transfer-Encoding: \"chunked\"\r\n", LAST, Closed("400")),
    ("a coding with a vertical tab", "Transfer-Encoding: \x0bchunked\r\n", LAST, Closed("400")),
    ("a blank before that colon", "Transfer-Encoding : chunked\r\n", LAST, Closed("400")),
    ("an empty coding", "Transfer-Encoding:\r\n", LAST, Closed("400")),
    ("a folded coding", "Transfer-Encoding:\r\n chunked\r\n", LAST, Closed("400")),
    ("a folded header", "X: a\r\n b\r\nContent-Length: 2\r\n", "{}@", Closed("400")),
    ("large letters", "TRANSFER-ENCODING: CHUNKED\r\n", "0\r\n\r\n", Open("400")),
    // Chunks.
    ("one chunk", CHUNKED, "2\r\n{}\r\n0\r\n\r\n", Open("400")),
    ("a chunk extension", CHUNKED, "2;a=b\r\n{}\r\n0;c\r\n\r\n", Open("400")),
    ("a trailer", CHUNKED, "0\r\nX: y\r\n\r\n", Open("400")),
    ("a length in a trailer", CHUNKED, "0\r\nContent-Length: 50\r\n\r\n", Open("400")),
    ("a chunk length that is none", CHUNKED, "zz\r\n{}\r\n0\r\n\r\n@", Closed("400")),
    ("a chunk length with a prefix", CHUNKED, "0x2\r\n{}\r\n0\r\n\r\n@", Closed("400")),
    ("a negative chunk length", CHUNKED, "-2\r\n{}\r\n0\r\n\r\n@", Closed("400")),
    ("a chunk length beyond all numbers", CHUNKED, "fffffffffffffffff2\r\n{}\r\n0\r\n\r\n@", Closed("400")),
    ("a chunk longer than it says", CHUNKED, "2\r\n{}}\r\n0\r\n\r\n@", Closed("400")),
    ("a bare line feed in an extension", CHUNKED, "2;\nxx\r\n{}\r\n0\r\n\r\n@", Closed("400")),
    ("a bare line feed behind a chunk length", CHUNKED, "2\n{}\r\n0\r\n\r\n@", Closed("400")),
    // Heads.
    ("a NUL in a header", "X: a\0b\r\nContent-Length: 2\r\n", "{}@", Closed("400")),
    (
        "a bare carriage return in a header",
        "X: a\rContent-Length: 50\r\nContent-Length: 2\r\n",
        "{}@",
        Closed("400"),
    ),
    ("two hosts", "Host: other.example\r\nContent-Length: 2\r\n", "{}", Open("400")),
];

#[tokio::test]
async fn no_request_can_be_hidden_in_another_one() {
    let model = Model::always_saying("hello").await;
    let service = Service::variant_a().model(&model).start().await;
    let mut wrong = Vec::new();
    for (what, headers, rest, expected) in CASES {
        let mut socket = Socket::connect(service.address()).await;
        let rest = rest.replace('@', SMUGGLED);
        socket.send(format!("{POST}{headers}\r\n{rest}{NEXT}")).await;
        let answers = socket.read_to_end().await;
        let statuses: Vec<_> =
            answers.match_indices("HTTP/1.1 ").map(|(at, _)| &answers[at + 9..at + 12]).collect();
        let found = match statuses[..] {
            // `/next` is not there.
            [status, "404"] => format!("{:?}", Open(leak(status))),
            [status] => format!("{:?}", Closed(leak(status))),
            _ => format!("{statuses:?}"),
        };
        if found != format!("{expected:?}") {
            wrong.push(format!("{what}: {found} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(!service.log().to_string().contains("/smuggled"), "{}", service.log());
    assert!(model.calls().is_empty());
}

fn leak(text: &str) -> &'static str {
    text.to_owned().leak()
}

/// A bare line feed ends a line for some and not for others: the whole head has to agree.
#[tokio::test]
async fn heads_with_bare_line_feeds_do_not_desynchronise() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    for head in [
        "GET /health/live HTTP/1.1\nHost: localhost\n\n",
        "GET /health/live HTTP/1.1\nHost: localhost\r\n\r\n",
        "GET /health/live HTTP/1.1\r\nHost: localhost\n\r\n",
        "\r\nGET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let mut socket = Socket::connect(service.address()).await;
        socket.send(format!("{head}{NEXT}")).await;
        let answers = socket.read_to_end().await;
        let count = answers.matches("HTTP/1.1 ").count();
        let closed = count == 1 && answers.starts_with("HTTP/1.1 400 ");
        assert!(closed || count == 2, "{head:?}: {answers}");
    }
}
