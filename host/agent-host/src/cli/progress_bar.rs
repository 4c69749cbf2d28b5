//! How far something has got that may take long, on the standard error: on a terminal a bar, elsewhere one
//! line, and nothing of what takes less than a second.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// What is quicker is not talked of.
const WORTH_A_WORD: Duration = Duration::from_secs(1);

/// Between two drawings of the bar.
const REDRAW: Duration = Duration::from_millis(100);

/// Characters of a bar that is full.
const WIDTH: u64 = 30;

/// Something that goes on.
pub(super) struct ProgressBar {
    /// What is being done, such as `downloading`.
    what: &'static str,
    /// An amount in words.
    amount: fn(u64) -> String,
    begun: Instant,
    is_terminal: bool,
    drawn: Option<Instant>,
}

impl ProgressBar {
    pub(super) fn start(what: &'static str, amount: fn(u64) -> String) -> Self {
        Self { what, amount, begun: Instant::now(), is_terminal: io::stderr().is_terminal(), drawn: None }
    }

    /// Says how much is done.
    pub(super) fn show(&mut self, done: u64, total: u64) {
        if let Some(text) = self.text(Instant::now(), done, total) {
            // silent-ok: whoever closed the standard error does not want to know.
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }

    /// What is to be written now, if anything.
    fn text(&mut self, now: Instant, done: u64, total: u64) -> Option<String> {
        if now.duration_since(self.begun) < WORTH_A_WORD {
            return None;
        }
        let is_due = match self.drawn {
            None => true,
            Some(drawn) => self.is_terminal && (now.duration_since(drawn) >= REDRAW || done >= total),
        };
        if !is_due {
            return None;
        }
        self.drawn = Some(now);
        if !self.is_terminal {
            return Some(format!("agent-host: {} {}\n", self.what, (self.amount)(total)));
        }
        let filled = done.saturating_mul(WIDTH).checked_div(total).unwrap_or(WIDTH).min(WIDTH);
        let bar: String = (0..WIDTH).map(|at| if at < filled { '#' } else { '.' }).collect();
        Some(format!("\r[{bar}] {} of {}", (self.amount)(done), (self.amount)(total)))
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if self.is_terminal && self.drawn.is_some() {
            // silent-ok: as above.
            let _ = io::stderr().write_all(b"\n");
        }
    }
}

/// Bytes in words.
pub(super) fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn texts(is_terminal: bool) -> Vec<Option<String>> {
        let begun = Instant::now();
        let mut progress =
            ProgressBar { what: "downloading", amount: mebibytes, begun, is_terminal, drawn: None };
        let arrivals = [(900, MIB), (1_000, 2 * MIB), (1_050, 3 * MIB), (1_100, 4 * MIB), (1_110, 8 * MIB)];
        let texts = arrivals.map(|(millis, received)| {
            progress.text(begun + Duration::from_millis(millis), received, 8 * MIB)
        });
        // Nothing of the test's own on the terminal.
        progress.drawn = None;
        texts.to_vec()
    }

    #[test]
    fn a_bar_grows_on_a_terminal_after_a_second() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            texts(true),
            [
                None,
                some("\r[#######.......................] 2.0 MiB of 8.0 MiB"),
                None,
                some("\r[###############...............] 4.0 MiB of 8.0 MiB"),
                some("\r[##############################] 8.0 MiB of 8.0 MiB"),
            ]
        );
    }

    #[test]
    fn elsewhere_there_is_one_line() {
        let line = Some("agent-host: downloading 8.0 MiB\n".to_owned());
        assert_eq!(texts(false), [None, line, None, None, None]);
    }
}
