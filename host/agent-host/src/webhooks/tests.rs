//! Signatures, who may receive webhooks, and receivers that mean harm or take their time.

use agent_core::ports::WebhookSender as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, UnparsedPublicKey};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;

/// The secret, the message and the signature of the specification's own example.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn sender(private: &str) -> HttpWebhooks {
    let private =
        if private.is_empty() { PrivateHosts::default() } else { PrivateHosts::parse(private).unwrap() };
    HttpWebhooks::new(&WebhookSecret::parse(SECRET).unwrap(), private).unwrap()
}

#[test]
fn a_message_is_signed_as_the_specification_has_it() {
    let keys = SigningKeys::of(&WebhookSecret::parse(SECRET).unwrap());
    let body = r#"{"test": 2432232314}"#;
    let signatures = keys.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
    let (v1, v1a) = signatures.split_once(' ').unwrap();
    assert_eq!(v1, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let public = STANDARD.decode(keys.public().strip_prefix("whpk_").unwrap()).unwrap();
    let signature = STANDARD.decode(v1a.strip_prefix("v1a,").unwrap()).unwrap();
    let content = format!("msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{body}");
    UnparsedPublicKey::new(&ED25519, public).verify(content.as_bytes(), &signature).unwrap();
}

/// Sends a message to a receiver of this machine, which the operator allows, that answers with this and stays
/// connected. Also how many seconds that took.
async fn send_to_receiver(answer: &str) -> (Result<u16, String>, u64) {
    let listening = TcpListener::bind("127.0.0.1:0").await.unwrap();
    send_by(&sender("127.0.0.1"), &listening, answer).await
}

async fn send_by(sender: &HttpWebhooks, listening: &TcpListener, answer: &str) -> (Result<u16, String>, u64) {
    let url = format!("http://{}/", listening.local_addr().unwrap());
    let receiving = async {
        let (mut stream, _) = listening.accept().await.unwrap();
        let read = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
        // Held until the message was answered or given up.
        (stream, read)
    };
    let message = WebhookMessage { id: "msg_1".into(), body: "{}".into() };
    let begun = Instant::now();
    let ((_stream, read), reply) = tokio::join!(receiving, sender.send("u1", &url, &message));
    assert!(read > 0, "it was sent the message");
    (reply.outcome, begun.elapsed().as_secs())
}

/// The address that it names is as private as its own, and allowed as well: following it would end in an
/// error.
#[tokio::test]
async fn a_receiver_that_redirects_to_another_address_is_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let head =
            format!("HTTP/1.1 {status} Moved\r\nlocation: http://{elsewhere}/\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(send_to_receiver(&head).await.0, Ok(status));
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_takes_its_time_is_given_up() {
    for begins in ["", "HTTP/1.1 200 OK\r\ncontent-le"] {
        let late = (Err("no answer within 20 s".to_owned()), 20);
        assert_eq!(send_to_receiver(begins).await, late, "{begins:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_answer_again_and_again_is_given_less_time_until_it_answers() {
    let sender = sender("127.0.0.1");
    let listening = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (is_answered, seconds) in [(false, 20), (false, 20), (false, 5), (true, 0), (false, 20)] {
        let answer = if is_answered { "HTTP/1.1 204 No Content\r\n\r\n" } else { "" };
        let (outcome, taken) = send_by(&sender, &listening, answer).await;
        assert_eq!((outcome.is_ok(), taken), (is_answered, seconds));
    }
}

#[test]
fn names_that_were_not_looked_up_in_time_make_no_host_slow() {
    let connect = |error: ConnectError| Some(outbound::Error::from(error));
    for (failed, says) in [
        (connect(ConnectError::ResolveTimeout(CONNECT_TIMEOUT)), None),
        (connect(ConnectError::Timeout(TIMEOUT)), Some(true)),
        (connect(ConnectError::NoSuchName("no".into())), Some(false)),
        (None, Some(false)),
    ] {
        assert_eq!(says_whether_slow(failed.as_ref()), says, "{failed:?}");
    }
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
    for (text, wait) in [
        ("120", Some(120)),
        (" 0 ", Some(0)),
        ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
        ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
        ("-1", None),
        ("soon", None),
    ] {
        assert_eq!(read_retry_after(text, now), wait.map(Duration::from_secs), "{text}");
    }
}

#[test]
fn what_is_no_secret_is_refused_and_none_is_shown() {
    for text in ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!"] {
        assert!(WebhookSecret::parse(text).is_none(), "{text}");
    }
    let secret = WebhookSecret::parse(SECRET).unwrap();
    let shown = format!("{secret:?}");
    assert!(!shown.contains("MfKQ9"), "{shown}");
}

#[test]
fn only_public_receivers_are_allowed_and_private_ones_that_the_operator_names() {
    for (private, url, allowed) in [
        ("", "https://example.com/hook", true),
        ("", "https://example.com:8443/hook?x=1", true),
        ("", "http://example.com/hook", false),
        ("", "https://user:word@example.com/", false),
        ("", "https://127.0.0.1/", false),
        ("", "https://10.0.0.1/", false),
        ("", "https://[::1]/", false),
        ("", "https://[::ffff:10.0.0.1]/", false),
        ("", "https://169.254.169.254/latest", false),
        ("", "https://0x7f000001/", false),
        ("", "https://8.8.8.8/", true),
        ("", "ftp://example.com/", false),
        ("", "/hook", false),
        ("", "", false),
        ("127.0.0.1, hooks.internal", "http://127.0.0.1:8080/hook", true),
        ("127.0.0.1, hooks.internal", "http://HOOKS.internal/", true),
        ("127.0.0.1, hooks.internal", "https://127.0.0.2/", false),
        ("169.254.169.254", "http://169.254.169.254/", false),
        ("::1", "http://[::1]:8080/", true),
        ("[::1]", "http://[::1]:8080/", true),
        ("hooks.internal.", "http://hooks.internal/", true),
    ] {
        assert_eq!(sender(private).check(url).is_ok(), allowed, "{url} with {private:?}");
    }
}

#[test]
fn what_names_no_host_is_refused_at_the_start() {
    for text in ["*.internal", "hooks.internal, *", "10.0.0.0/8", "http://hooks.internal", "hooks:8080", "a,"]
    {
        assert_eq!(PrivateHosts::parse(text), None, "{text}");
    }
}

/// A name passes when it is submitted: its addresses are judged when it is connected to.
#[tokio::test]
async fn addresses_are_checked_where_they_are_connected_to() {
    let (sender, url) = (sender(""), "https://localhost/");
    sender.check(url).unwrap();
    let message = WebhookMessage { id: "msg_1".into(), body: "{}".into() };
    let error = sender.send("u1", url, &message).await.outcome.unwrap_err();
    assert!(error.contains("WEBHOOK_PRIVATE_HOSTS"), "{error}");
}
