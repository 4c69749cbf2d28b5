//! Console blocks of pages are carried out against a service and answer what is shown. A block behind `<!-- shown -->` is
//! shown only.

use acceptance::{SECRET, Service, Token};
use tokio::process::Command;

use super::markdown::{Page, pages};

/// A command, and what it should print: `…` stands for anything.
struct Step {
    command: String,
    shown: String,
}

/// The console blocks of a page that are not only shown.
fn steps(page: &Page) -> Vec<Step> {
    let (mut steps, mut before, mut within) = (Vec::<Step>::new(), "", false);
    for line in page.text.lines() {
        if line.starts_with("```") {
            within = line == "```console" && before != "<!-- shown -->";
        } else if within {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step { command: command.to_owned(), shown: String::new() }),
                (None, Some(step)) => step.shown.extend([line, "\n"]),
                (None, None) => panic!("{}: a console block begins with a command", page.path.display()),
            }
        }
        before = line;
    }
    steps
}

/// Whether a text is as shown.
fn is_shown(text: &str, shown: &str) -> bool {
    let pieces: Vec<_> = shown.trim_end().split('…').map(str::trim).collect();
    let [first, rest @ ..] = pieces.as_slice() else { return text.is_empty() };
    let Some(mut left) = text.trim().strip_prefix(first) else { return false };
    for (index, piece) in rest.iter().enumerate() {
        let is_last = index + 1 == rest.len();
        let found = if is_last && piece.is_empty() { Some(left.len()) } else { left.find(piece) };
        let Some(at) = found else { return false };
        left = &left[at + piece.len()..];
    }
    left.trim().is_empty()
}

#[test]
fn what_is_shown_is_compared_with_room_where_the_page_leaves_some() {
    assert!(is_shown("{\"id\":\"run_1\",\"output\":\"a\"}\n", "{\"id\":\"run_…\",\"output\":\"a\"}"));
    assert!(is_shown("a b c", "a …") && is_shown("a\n", "a\n"));
    assert!(!is_shown("a b", "a") && !is_shown("b", "a …") && !is_shown("a c", "a …b…"));
}

#[tokio::test]
async fn what_pages_show_is_what_a_service_answers() {
    let dev = Service::command(&["dev"]).tools(["calculator"]);
    // Pages are read by many; here one reader tries all of them at once.
    let windows =
        [("RATE_LIMIT_IP", "10000"), ("RATE_LIMIT_USER", "10000"), ("PORT", "0"), ("JWT_SECRET", SECRET)];
    let service = windows.into_iter().fold(dev, |dev, (name, value)| dev.env(name, value)).start().await;
    let (host, token) = (format!("http://{}", service.address()), Token::of("reader").to_string());
    let mut tried = 0;
    for page in pages() {
        for Step { command, shown } in steps(&page) {
            let mut shell = Command::new("/bin/sh");
            let output =
                shell.args(["-c", &command]).env("HOST", &host).env("TOKEN", &token).output().await.unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            let page = page.path.display();
            assert!(
                is_shown(&printed, &shown),
                "{page}: {command}\nprints\n{printed}\nand the page shows\n{shown}"
            );
            tried += 1;
        }
    }
    assert!(tried > 8, "the blocks are found: {tried}");
}
