//! A span of a trace as the W3C writes it: `traceparent`, and `tracestate` beside it.

use std::fmt;
use std::sync::Arc;

/// The longest `traceparent` that is read. Version 00 has 55 characters; later ones may append.
const LONGEST: usize = 512;

/// The longest `tracestate` that is passed on, and its most entries: as much as the Recommendation has
/// everybody pass on.
const LONGEST_STATE: usize = 512;
const MOST_ENTRIES: usize = 32;

/// One span of one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace. Never 0.
    pub trace_id: u128,
    /// The span within it. Never 0.
    pub span_id: u64,
    /// Whether who sent it records the trace. A hint: nobody has to follow it.
    pub sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`, strictly as the W3C Recommendation says: anything else is no context.
    pub fn parse(traceparent: &str) -> Option<Self> {
        if traceparent.len() > LONGEST {
            return None;
        }
        let mut parts = traceparent.trim_matches([' ', '\t']).split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = hex(parts.next()?, 2)?;
        // Version 00 ends here, later ones may go on, ff is none.
        let has_more = parts.next().is_some();
        let is_valid = version != 0xff && !(version == 0 && has_more) && trace_id != 0 && span_id != 0;
        is_valid.then_some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }

    /// The trace's id, as logs and `traceparent` have it.
    pub fn trace_digits(&self) -> Digits<32> {
        Digits::of(self.trace_id)
    }

    /// The span's id, as logs and `traceparent` have it.
    pub fn span_digits(&self) -> Digits<16> {
        Digits::of(u128::from(self.span_id))
    }
}

/// Exactly `digits` lower-case hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// As a `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        f.write_str(self.trace_digits().as_str())?;
        f.write_str("-")?;
        f.write_str(self.span_digits().as_str())?;
        f.write_str(if self.sampled { "-01" } else { "-00" })
    }
}

/// An id in lower-case hexadecimal digits. Every log line and every request to others has some, for which the
/// formatter of integers takes several times as long.
#[derive(Debug, Clone, Copy)]
pub struct Digits<const COUNT: usize>([u8; COUNT]);

impl<const COUNT: usize> Digits<COUNT> {
    fn of(mut value: u128) -> Self {
        let mut digits = [b'0'; COUNT];
        for digit in digits.iter_mut().rev() {
            let four_bits = (value & 0xf) as u8;
            *digit = four_bits + if four_bits < 10 { b'0' } else { b'a' - 10 };
            value >>= 4;
        }
        Self(digits)
    }

    /// The digits as a text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// What tracing systems say of a trace beside its context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceState(Arc<str>);

impl TraceState {
    /// Reads the values of `tracestate` headers, which belong together in their order. Anything that is none
    /// is left out as a whole.
    pub fn parse<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let state = headers.collect::<Vec<_>>().join(",");
        let entries = state.split(',').map(|entry| entry.trim_matches([' ', '\t']));
        let entries: Vec<_> = entries.filter(|entry| !entry.is_empty()).collect();
        let is_entry = |entry: &&str| {
            entry.split_once('=').is_some_and(|(key, _)| !key.is_empty())
                && entry.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        };
        let is_valid = (1..=MOST_ENTRIES).contains(&entries.len())
            && state.len() <= LONGEST_STATE
            && entries.iter().all(is_entry);
        is_valid.then(|| Self(entries.join(",").into()))
    }

    /// As a `tracestate`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_traceparent_is_read() {
        let context = TraceContext::parse(VALID).unwrap();
        assert_eq!(context.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span_id, context.sampled), (0x00f0_67aa_0ba9_02b7, true));
        for (text, sampled) in [
            (VALID.replace("-01", "-00"), false),
            (VALID.replace("-01", "-ff"), true),
            (VALID.replacen("00", "01", 1) + "-what-the-future-brings", true),
            (format!(" {VALID}\t"), true),
        ] {
            assert_eq!(TraceContext::parse(&text), Some(TraceContext { sampled, ..context }), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_context() {
        for text in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            &format!("01{}-{}", &VALID[2..], "x".repeat(500)),
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(trace_id in 1_u128.., span_id in 1_u64.., sampled: bool) {
            let context = TraceContext { trace_id, span_id, sampled };
            let text = format!("00-{trace_id:032x}-{span_id:016x}-{:02x}", u8::from(sampled));
            prop_assert_eq!(&context.to_string(), &text);
            prop_assert_eq!(TraceContext::parse(&text), Some(context));
        }

        #[test]
        fn no_text_breaks_the_parser(text in ".*") {
            let _either_way = TraceContext::parse(&text);
        }
    }

    #[test]
    fn a_state_is_passed_on_as_it_came_or_not_at_all() {
        let many = ["a=1"; MOST_ENTRIES + 1].join(",");
        let long = format!("a={}", "x".repeat(LONGEST_STATE));
        for (headers, state) in [
            (&["dd=s:2;o:rum,vendor@tenant=x"][..], Some("dd=s:2;o:rum,vendor@tenant=x")),
            (&["a=1 , b=2", "c=3,"], Some("a=1,b=2,c=3")),
            (&[], None),
            (&[""], None),
            (&["a"], None),
            (&["=1"], None),
            (&["a=1", "a=\u{7f}"], None),
            (&[&many], None),
            (&[&long], None),
        ] {
            let read = TraceState::parse(headers.iter().copied());
            assert_eq!(read.as_ref().map(TraceState::as_str), state, "{headers:?}");
        }
    }
}
