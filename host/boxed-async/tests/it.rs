//! Methods of every shape, called on objects.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use boxed_async::boxed_async;

#[derive(Clone, Copy)]
struct Name<'a>(&'a str);

/// Says when it is dropped.
struct Token(Arc<AtomicBool>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[boxed_async]
trait Greeter: Send + Sync {
    async fn greet(&self, name: Name<'_>, words: &[&str]) -> String;
    async fn first<'a>(&self, words: &'a [String]) -> Option<&'a str>;
    async fn shown(&self, found: bool) -> Box<dyn Display + Send>;
    async fn keep(&self, _token: Token);
    async fn count(&mut self, by: u32, pair: (u32, u32)) -> u32;
    async fn longest(&self, of: &(dyn Fn(&str) -> usize + Sync)) -> usize {
        of(&self.greet(Name("everybody"), &["dear"]).await)
    }
    fn is_polite(&self) -> bool;
}

struct Polite {
    counted: u32,
}

#[boxed_async]
impl Greeter for Polite {
    async fn greet(&self, name: Name<'_>, words: &[&str]) -> String {
        format!("{} {}", words.join(" "), name.0)
    }

    async fn first<'a>(&self, words: &'a [String]) -> Option<&'a str> {
        let first = words.first()?;
        Some(first)
    }

    async fn shown(&self, found: bool) -> Box<dyn Display + Send> {
        if !found {
            return Box::new("nobody");
        }
        Box::new(1)
    }

    async fn keep(&self, _token: Token) {
        std::future::pending::<()>().await;
    }

    async fn count(&mut self, mut by: u32, (more, _): (u32, u32)) -> u32 {
        by += more;
        self.counted += by;
        self.counted
    }

    fn is_polite(&self) -> bool {
        true
    }
}

fn greeter() -> Box<dyn Greeter> {
    Box::new(Polite { counted: 0 })
}

#[tokio::test]
async fn methods_of_an_object_are_called() {
    let mut greeter = greeter();
    assert_eq!(greeter.greet(Name("Ada"), &["good", "morning"]).await, "good morning Ada");
    assert_eq!(greeter.longest(&str::len).await, "dear everybody".len());
    assert_eq!(greeter.count(1, (2, 9)).await, 3);
    assert_eq!(greeter.count(1, (0, 9)).await, 4);
    assert!(greeter.is_polite());
}

#[tokio::test]
async fn an_answer_may_borrow_from_what_has_a_name() {
    let words = vec![String::from("hello")];
    let first = {
        let greeter = greeter();
        greeter.first(&words).await
    };
    assert_eq!(first, Some("hello"));
}

#[tokio::test]
async fn every_return_becomes_the_output() {
    assert_eq!(greeter().shown(false).await.to_string(), "nobody");
    assert_eq!(greeter().shown(true).await.to_string(), "1");
}

#[test]
fn a_future_may_move_between_threads() {
    fn may_move<T: Send>(_: &T) {}
    may_move(&greeter().greet(Name("Ada"), &["hello"]));
}

#[test]
fn an_argument_that_is_not_used_lives_as_long_as_the_future() {
    let is_dropped = Arc::new(AtomicBool::new(false));
    let greeter = greeter();
    let future = greeter.keep(Token(is_dropped.clone()));
    assert!(!is_dropped.load(Ordering::Relaxed));
    drop(future);
    assert!(is_dropped.load(Ordering::Relaxed));
}
