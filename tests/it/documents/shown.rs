//! Console blocks of pages are carried out against a service and answer what is shown; blocks of `sh` are
//! scripts that succeed. A block behind `<!-- shown -->` is shown only.

use acceptance::{SECRET, Service, Token};
use tokio::process::Command;

use super::markdown::{Page, pages};

/// Marks a block that is not carried out.
const SHOWN_ONLY: &str = "<!-- shown -->";

/// A command, and what it should print, if that is shown: `…` stands for anything.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    shown: Option<String>,
}

/// The console blocks and the scripts of a page that are not only shown.
fn steps(page: &Page) -> Vec<Step> {
    let (mut steps, mut before, mut within) = (Vec::<Step>::new(), "", "");
    for line in page.text.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            within = if before == SHOWN_ONLY { "" } else { kind };
            if within == "sh" {
                steps.push(Step { command: "set -e\n".to_owned(), shown: None });
            }
        } else if within == "sh" {
            steps.iter_mut().last().unwrap().command.extend([line, "\n"]);
        } else if within == "console" {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { command: command.to_owned(), shown: Some(String::new()) });
                }
                (None, Some(Step { shown: Some(shown), .. })) => shown.extend([line, "\n"]),
                (None, _) => panic!("{}: a console block begins with a command", page.path.display()),
            }
        }
        before = line;
    }
    steps
}

#[test]
fn console_blocks_and_scripts_are_carried_out_unless_they_are_marked() {
    let text = "```console\n$ one\n1\n```\n```sh\ntwo\nthree\n```\n<!-- shown -->\n```sh\nfour\n```\n\
                <!-- shown -->\n```console\n$ five\n```\n```rust\nsix\n```\n";
    let step =
        |command: &str, shown: Option<&str>| Step { command: command.into(), shown: shown.map(Into::into) };
    let page = Page { path: "page.md".into(), text: text.to_owned() };
    assert_eq!(steps(&page), [step("one", Some("1\n")), step("set -e\ntwo\nthree\n", None)]);
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
    let (url, token) = (format!("http://{}", service.address()), Token::of("reader").to_string());
    let mut tried = 0;
    for page in pages() {
        // Later commands of a page may read what earlier ones wrote.
        let folder = tempfile::tempdir().unwrap();
        for Step { command, shown } in steps(&page) {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &command]).env("URL", &url).env("TOKEN", &token).current_dir(folder.path());
            let output = shell.output().await.unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            let page = page.path.display();
            match shown {
                Some(shown) => assert!(
                    is_shown(&printed, &shown),
                    "{page}: {command}\nprints\n{printed}\nand the page shows\n{shown}"
                ),
                None => assert!(output.status.success(), "{page}: {command}\nfails: {printed}"),
            }
            tried += 1;
        }
    }
    assert!(tried > 8, "the blocks are found: {tried}");
}
