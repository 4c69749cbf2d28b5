//! The object `console`: lines that go along with the answer, within bounds.

use std::cell::RefCell;

use boa_engine::object::ObjectInitializer;
use boa_engine::{Context, JsResult, JsString, JsValue, NativeFunction, js_string};

use crate::globals;
use crate::rejections::Rejections;
use crate::show;
use crate::text::cut;

pub(crate) const MOST_LINES: usize = 100;
/// Longest line, in bytes; the rest of it is cut off.
pub(crate) const MOST_LINE_BYTES: usize = 2 << 10;
/// Most bytes of all lines together.
pub(crate) const MOST_BYTES: usize = 16 << 10;

/// The methods that write a line. They all write the same.
const METHODS: [&str; 5] = ["log", "info", "warn", "error", "debug"];

/// What was written so far.
#[derive(Default)]
pub(crate) struct Console {
    lines: RefCell<Lines>,
}

#[derive(Default)]
struct Lines {
    kept: Vec<String>,
    bytes: usize,
    dropped: usize,
}

impl Console {
    /// Puts `console` where scripts find it.
    pub(crate) fn install(context: &mut Context) -> JsResult<()> {
        context.insert_data(Self::default());
        let mut console = ObjectInitializer::new(context);
        for method in METHODS {
            console.function(NativeFunction::from_fn_ptr(write_line), JsString::from(method), 0);
        }
        let console = console.build();
        globals::define(js_string!("console"), console, context)
    }

    /// What was written, and what there is to say of it.
    pub(crate) fn take(context: &mut Context) -> Vec<String> {
        let Some(console) = context.remove_data::<Self>() else { return Vec::new() };
        for reason in Rejections::take(context) {
            let reason = show::thrown(&reason, context);
            console.lines.borrow_mut().add(&format!("a promise that nothing awaited failed: {reason}"));
        }
        let Lines { mut kept, dropped, .. } = console.lines.take();
        if dropped > 0 {
            kept.push(format!("({dropped} more lines were left out)"));
        }
        kept
    }
}

impl Lines {
    fn add(&mut self, line: &str) {
        let kept = cut(line, MOST_LINE_BYTES.min(MOST_BYTES - self.bytes));
        if self.kept.len() == MOST_LINES || (kept.is_empty() && !line.is_empty()) {
            self.dropped += 1;
            return;
        }
        self.bytes += kept.len();
        self.kept.push(if kept.len() == line.len() { kept.to_owned() } else { format!("{kept}…") });
    }
}

/// Writes the arguments as one line: strings as they are, everything else as JSON.
fn write_line(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let mut line = String::new();
    for (index, value) in arguments.iter().enumerate() {
        if index > 0 {
            line.push(' ');
        }
        match value.as_string() {
            Some(text) => line.push_str(&text.to_std_string_lossy()),
            None => line.push_str(&show::value(value, MOST_LINE_BYTES, context)),
        }
        if line.len() > MOST_LINE_BYTES {
            break;
        }
    }
    if let Some(console) = context.get_data::<Console>() {
        console.lines.borrow_mut().add(&line);
    }
    Ok(JsValue::undefined())
}
